// One operator without a model around it: for custom operators that call others.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "session/options.h"

namespace tessera {

class OneOp {
 public:
  // The operator of `node` (its inputs and outputs are made here), with `inputs` and `outputs` arguments. Refused here:
  // unknown operators and wrong attributes.
  static Result<std::unique_ptr<OneOp>> create(const ir::Node& node, int inputs, int outputs, const CustomOps& custom);

  // Any thread. An empty input is absent. Tensors of the right type and shape given as outputs are written in place,
  // anything else there is replaced.
  Status run(std::span<const Value> inputs, std::span<Value> outputs, int threads, Target target);

 private:
  struct Variant {
    std::vector<TypeDesc> types;  // of the inputs
    std::shared_ptr<const Plan> plan;
    std::vector<std::unique_ptr<Context>> idle;
  };
  OneOp() = default;
  Result<std::shared_ptr<ir::Graph>> graph_for(std::span<const TypeDesc> types) const;
  Result<Variant*> variant_for(std::span<const TypeDesc> types);

  ir::Node node_;
  int inputs_ = 0, outputs_ = 0;
  CustomOps custom_;
  SlabPool slabs_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Variant>> variants_;  // one per combination of types seen
};

}  // namespace tessera
