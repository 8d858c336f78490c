// Any bytes as a model: load it and, if that works, run it once on small inputs.
#include <cstdint>
#include <cstring>

#include "session/session.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SessionOptions options;
  options.threads = 1;
  options.max_tensor_bytes = options.max_run_bytes = 16 << 20;
  auto session = Session::from_bytes(borrow_bytes(data, size), options);
  if (!session.ok()) return 0;
  std::vector<Value> inputs;
  for (const ValueSpec& spec : (*session)->inputs()) {
    std::vector<int64_t> dims;
    if (spec.fact.shape)
      for (const Dim& d : *spec.fact.shape) dims.push_back(d.known() && d.value() < 8 ? d.value() : 2);
    if (dims.size() > 6) return 0;
    auto t = Tensor::allocate(spec.fact.dtype == DType::undefined ? DType::f32 : spec.fact.dtype, Shape(dims));
    if (!t.ok()) return 0;
    if (t->dtype() != DType::string && t->bytes()) std::memset(t->mutable_data(), 1, static_cast<size_t>(t->bytes()));
    inputs.push_back(*t);
  }
  // A model may loop for ever; fuzzing wants an end.
  RunOptions run;
  std::vector<Value> outputs((*session)->outputs().size());
  for (const ir::Node& n : (*session)->model().graph->nodes())
    if (n.op_type == "Loop") return 0;
  if (Status s = (*session)->run(inputs, outputs, &run); !s.ok() && s.message().empty()) __builtin_trap();
  return 0;
}
