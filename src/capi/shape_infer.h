// OrtShapeInferContext: one node whose output types and shapes a custom operator tells, before anything runs.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "capi/kernel_info.h"

struct OrtShapeInferContext {
  OrtShapeInferContext(const OrtKernelInfo& node, tessera::DimPool& dims, std::span<const tessera::Fact* const> in,
                       std::span<tessera::Fact> out);

  const OrtKernelInfo& node;
  tessera::DimPool& dims;
  std::vector<OrtTensorTypeAndShapeInfo> inputs;
  std::span<tessera::Fact> outputs;
  std::map<std::string, tessera::Dim> expressions;  // the sizes that the inputs spell as names
};
