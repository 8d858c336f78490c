// OrtKernelInfo: what a custom operator may know of its node. Keeps all it shows, so it outlives the session.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/logger.h"
#include "capi/op_attr.h"
#include "capi/type_info.h"
#include "capi/value.h"

namespace tessera::capi {

// What the custom operators of a session share.
struct CustomSession {
  OrtLogger logger;
  std::map<std::string, std::string> config;
  std::vector<std::shared_ptr<void>> libraries;  // kept open
};

// A constant input, made a tensor when somebody asks.
class ConstantInput {
 public:
  explicit ConstantInput(const Weight& weight) : weight_(weight) {}
  Result<const OrtValue*> value();

 private:
  std::mutex mutex_;
  Weight weight_;
  OrtValue value_;
};

struct KernelArgument {
  std::string name;  // empty: absent
  OrtTypeInfo type;
  std::shared_ptr<ConstantInput> constant;  // null: known at run time only
};

}  // namespace tessera::capi

struct OrtKernelInfo {
  std::shared_ptr<const tessera::capi::CustomSession> session;
  std::string node, domain, op_type;
  int since = 1;
  std::vector<OrtOpAttr> attributes;
  std::vector<tessera::capi::KernelArgument> inputs, outputs;

  // Null if the node has no such attribute.
  const OrtOpAttr* find(std::string_view name) const;
};

namespace tessera::capi {

// Names and attributes of a node. Types and constants are those of the scope, which may be null.
std::unique_ptr<OrtKernelInfo> kernel_info_of(std::shared_ptr<const CustomSession> session, const Scope* scope,
                                              const ir::Node& node, int since);

}  // namespace tessera::capi
