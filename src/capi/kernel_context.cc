#include "capi/kernel_context.h"

#include "base/checked.h"
#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/topics.h"

using namespace tessera;

namespace {

// A tensor over memory of the run.
Value view_of(DType dtype, const Shape& shape, void* data) {
  const auto size = static_cast<size_t>(bytes_for(dtype, shape.count()).value_or(0));
  return Tensor(dtype, shape, std::make_shared<Bytes>(Bytes::Origin::borrowed, data, size, nullptr, nullptr));
}

}  // namespace

Status OrtKernelContext::open() {
  inputs_.resize(size_of(call_.inputs()));
  for (int i = 0; i < call_.inputs(); ++i) {
    if (!call_.has(i)) continue;
    if (call_.is_tensor(i)) {
      inputs_[size_of(i)].value = view_of(call_.dtype(i), call_.shape(i), const_cast<void*>(call_.in(i)));
    } else {
      TRY_ASSIGN(value, call_.value(i));
      inputs_[size_of(i)].value = std::move(value);
    }
  }
  return {};
}

Status OrtKernelContext::close() const {
  for (int o = 0; o < call_.outputs(); ++o) {
    const bool there = shaped_ && call_.wants(o) && call_.out_dtype(o) != DType::string;
    if (call_.wants(o) && !outputs_[size_of(o)] && !there)
      return error(Code::fail, "the operator did not give output {}", o);
  }
  return {};
}

const OrtValue* OrtKernelContext::input(size_t index) const {
  return index < inputs_.size() && !inputs_[index].value.empty() ? &inputs_[index] : nullptr;
}

Result<OrtValue*> OrtKernelContext::show(size_t index) {
  const int o = static_cast<int>(index);
  void* data = call_.out(o);
  if (!data && call_.out_count(o) > 0) return error(Code::fail, "there is no memory for output {}", index);
  outputs_[index] = std::make_unique<OrtValue>(OrtValue{view_of(call_.out_dtype(o), call_.out_shape(o), data)});
  return outputs_[index].get();
}

// What the operator says; else what the graph says; else the type of the first input.
Result<DType> OrtKernelContext::type_of_output(size_t index) const {
  DType type = index < out_types_.size() ? out_types_[index] : DType::undefined;
  if (type == DType::undefined) type = call_.out_dtype(static_cast<int>(index));
  for (int i = 0; type == DType::undefined && i < call_.inputs(); ++i)
    if (call_.is_tensor(i)) type = call_.dtype(i);
  if (type == DType::undefined) return error(Code::fail, "nothing says of what type output {} is", index);
  return type;
}

Result<OrtValue*> OrtKernelContext::output(size_t index, std::span<const int64_t> dims) {
  const int o = static_cast<int>(index);
  if (index >= outputs_.size() || !call_.wants(o)) return nullptr;
  TRY_ASSIGN(shape, Shape::checked(dims));
  if (shaped_ || outputs_[index]) {
    if (!(call_.out_shape(o) == shape))
      return invalid("output {} has the shape {}, it cannot become {}", index, call_.out_shape(o).dims(), dims);
    return outputs_[index] ? outputs_[index].get() : show(index);
  }
  TRY_ASSIGN(type, type_of_output(index));
  TRY(call_.allocate(o, type, std::move(shape)));
  return show(index);
}

Result<OrtValue*> OrtKernelContext::shaped_output(size_t index) {
  if (index >= outputs_.size() || !call_.wants(static_cast<int>(index))) return nullptr;
  if (outputs_[index]) return outputs_[index].get();
  if (!shaped_) return invalid("the shape of output {} is not known yet", index);
  return show(index);
}

Result<void*> OrtKernelContext::scratch(size_t size) {
  if (size == 0) return static_cast<void*>(nullptr);
  TRY_ASSIGN(memory, allocate_bytes(size));
  std::lock_guard lock(mutex_);
  scratch_.push_back(std::move(memory));
  return static_cast<void*>(scratch_.back()->data());
}

namespace tessera::capi {
namespace {

Status input_count(const OrtKernelContext* context, size_t* out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = static_cast<size_t>(context->call().inputs());
  return {};
}

Status output_count(const OrtKernelContext* context, size_t* out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = static_cast<size_t>(context->call().outputs());
  return {};
}

Status get_input(const OrtKernelContext* context, size_t index, const OrtValue** out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = context->input(index);
  return {};
}

Status get_output(OrtKernelContext* context, size_t index, const int64_t* dims, size_t rank, OrtValue** out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  if (rank) TRY(not_null({{"dim_values", dims}}));
  TRY_ASSIGN(value, context->output(index, {dims, rank}));
  *out = value;
  return {};
}

Status get_shaped_output(const OrtKernelContext* context, size_t index, OrtValue** out) {
  TRY(not_null({{"context", context}, {"output", out}}));
  TRY_ASSIGN(value, const_cast<OrtKernelContext*>(context)->shaped_output(index));
  *out = value;
  return {};
}

// There are no devices, so there are no streams of work.
Status no_stream(const OrtKernelContext* context, void** out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = nullptr;
  return {};
}
Status no_sync_stream(const OrtKernelContext* context, OrtSyncStream** out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = nullptr;
  return {};
}
Status no_resource(const OrtKernelContext* context, int version, int id, void** out) {
  TRY(not_null({{"context", context}, {"resource", out}}));
  *out = nullptr;
  return not_implemented("resource {} of version {} belongs to a device; this build has the CPU only", id, version);
}

Status logger(const OrtKernelContext* context, const OrtLogger** out) {
  TRY(not_null({{"context", context}, {"logger", out}}));
  *out = &context->session().logger;
  return {};
}

Status allocator(const OrtKernelContext* context, const OrtMemoryInfo* info, OrtAllocator** out) {
  TRY(not_null({{"context", context}, {"mem_info", info}, {"out", out}}));
  if (!is_host_memory(*info)) return invalid("no allocator for {} memory; this build has Cpu", quote(info->name));
  *out = default_allocator();
  return {};
}

Status scratch(const OrtKernelContext* context, const OrtMemoryInfo* info, size_t size, void** out) {
  TRY(not_null({{"context", context}, {"mem_info", info}, {"out", out}}));
  if (!is_host_memory(*info)) return invalid("no allocator for {} memory; this build has Cpu", quote(info->name));
  TRY_ASSIGN(memory, const_cast<OrtKernelContext*>(context)->scratch(size));
  *out = memory;
  return {};
}

// `batches` pieces of neighbouring indexes; zero leaves their number to us.
Status parallel_for(const OrtKernelContext* context, void (*fn)(void*, size_t), size_t total, size_t batches,
                    void* data) {
  TRY(not_null({{"context", context}, {"fn", reinterpret_cast<const void*>(fn)}}));
  if (total == 0) return {};
  constexpr size_t kMostPieces = 256;
  const size_t wanted = std::min({batches ? batches : kMostPieces, kMostPieces, total});
  const size_t piece = total / wanted + (total % wanted != 0);
  const auto pieces = static_cast<int64_t>(total / piece + (total % piece != 0));
  context->call().parallel(pieces, [&](int64_t chunk, int) {
    const size_t begin = static_cast<size_t>(chunk) * piece;
    for (size_t i = begin; i < std::min(total, begin + piece); ++i) fn(data, i);
  });
  return {};
}

}  // namespace

void fill_kernel_context(OrtApi& api) {
  api.KernelContext_GetInputCount = slot<input_count>;
  api.KernelContext_GetOutputCount = slot<output_count>;
  api.KernelContext_GetInput = slot<get_input>;
  api.KernelContext_GetOutput = slot<get_output>;
  api.KernelContext_GetPreallocatedOutput = slot<get_shaped_output>;
  api.KernelContext_GetGPUComputeStream = slot<no_stream>;
  api.KernelContext_GetSyncStream = slot<no_sync_stream>;
  api.KernelContext_GetResource = slot<no_resource>;
  api.KernelContext_GetLogger = slot<logger>;
  api.KernelContext_GetAllocator = slot<allocator>;
  api.KernelContext_GetScratchBuffer = slot<scratch>;
  api.KernelContext_ParallelFor = slot<parallel_for>;
}

}  // namespace tessera::capi
