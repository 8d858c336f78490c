// The whole vocabulary an operator file needs. An operator is plain constant data: no registration, no constructors.
//
// An operator file defines `extern const Op kName` (parameters, types, shapes, kernels: every build) and, for full
// builds, `extern const OpInference kNameInference`. The list in ops.txt turns into the tables that libraries link.
#pragma once
#include <atomic>
#include <cassert>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "core/value.h"
#include "ir/graph.h"

namespace tessera {

namespace ir {
class Annotator;  // ir/patch.h
}
class Composer;  // ops/compose.h

// ---------------------------------------------------------------------------------------------- attributes

// Reads a node's attributes into an operator's parameters. Missing ones leave the default; a wrong type is remembered
// and comes back from done().
class Attrs {
 public:
  Attrs(const ir::Node& node, int since) : node_(node), since_(since) {}

  // The operator version in force. Parameters hide the differences: nothing after parsing knows it.
  int version() const { return since_; }
  const ir::Node& node() const { return node_; }
  bool has(std::string_view name) const { return node_.find(name) != nullptr; }

  void get(std::string_view name, int64_t& out);
  void get(std::string_view name, int& out);
  void get(std::string_view name, bool& out);
  void get(std::string_view name, float& out);
  void get(std::string_view name, std::string& out);
  void get(std::string_view name, DType& out);  // an integer of TensorProto.DataType
  void get(std::string_view name, std::vector<int64_t>& out);
  void get(std::string_view name, std::vector<float>& out);
  void get(std::string_view name, std::vector<std::string>& out);
  void get(std::string_view name, Tensor& out);
  void get(std::string_view name, std::shared_ptr<ir::Graph>& out);
  template <class T>
  void get(std::string_view name, std::optional<T>& out) {
    if (has(name)) get(name, out.emplace());
  }
  // One of `names`; the index of it.
  void get_choice(std::string_view name, int& out, std::span<const std::string_view> names);

  Status refuse(std::string_view name, std::string_view wanted) const;
  Status done() { return std::move(status_); }

 private:
  template <class T>
  const T* read(std::string_view name, ir::AttrType type);
  const ir::Node& node_;
  int since_;
  Status status_;
};

// ---------------------------------------------------------------------------------------------- types

// The type of a value as far as running it needs: dtype is that of the tensors, at whatever depth.
struct TypeDesc {
  Kind kind = Kind::tensor;
  DType dtype = DType::undefined;
  Kind inner = Kind::tensor;  // of an optional or sequence
};

// What an operator's type function sees.
struct TypeCall {
  const ir::Node& node;
  const void* params;
  std::span<const TypeDesc> in;  // kind unknown for absent inputs
  std::span<TypeDesc> out;
  // Types of the outputs of the node's subgraph `k`, in the order of the attributes.
  std::span<const std::vector<TypeDesc>> bodies;
};
using TypeFn = void(TypeCall&);

template <int I>
void type_of_input(TypeCall& c) {
  for (TypeDesc& t : c.out) t = c.in[I];
}
template <DType D>
void type_always(TypeCall& c) {
  for (TypeDesc& t : c.out) t = {Kind::tensor, D, Kind::tensor};
}

// ---------------------------------------------------------------------------------------------- shapes

// A list of dimensions on the stack.
template <class D>
class DimVec {
 public:
  DimVec() {}
  explicit DimVec(std::span<const D> dims) { append(dims); }
  DimVec(std::initializer_list<D> dims) { append({dims.begin(), dims.size()}); }
  DimVec(const DimVec& o) { append(o.span()); }
  DimVec& operator=(const DimVec& o) {
    if (this != &o) {
      clear();
      append(o.span());
    }
    return *this;
  }
  ~DimVec() = default;

  int size() const { return size_; }
  bool full() const { return size_ == kMaxRank; }
  void clear() { size_ = 0; }
  // Ignored when full: the reader of a too long list sees kMaxRank of them and refuses.
  void push(const D& d) {
    if (size_ < kMaxRank) data()[size_++] = d;
  }
  void append(std::span<const D> dims) {
    for (const D& d : dims) push(d);
  }
  void insert(int at, const D& d) {
    if (full()) return;
    for (int i = size_++; i > at; --i) data()[i] = data()[i - 1];
    data()[at] = d;
  }
  void erase(int at) {
    for (int i = at; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
  }
  D& operator[](int i) { return data()[i]; }
  const D& operator[](int i) const { return data()[i]; }
  std::span<const D> span() const { return {data(), static_cast<size_t>(size_)}; }

 private:
  static_assert(std::is_trivially_copyable_v<D> && std::is_trivially_destructible_v<D>);
  D* data() { return reinterpret_cast<D*>(storage_); }
  const D* data() const { return reinterpret_cast<const D*>(storage_); }
  int size_ = 0;
  alignas(D) unsigned char storage_[sizeof(D) * kMaxRank];
};

// One value during a run: where its bytes are and what they mean.
struct Slot {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::undefined;
  bool present = false;  // false: absent optional, or not a tensor (see Value)
  bool known = false;    // content may be read while shapes are being computed
  bool changed = true;   // shape or known content differ from the previous binding
};

// What a shape function sees: the inputs' shapes, for some inputs their content, and the outputs to fill. One function
// template serves D = int64_t (every build, at binding) and D = Dim (full builds, at load).
template <class D>
class ShapeCall;

template <>
class ShapeCall<int64_t> {
 public:
  ShapeCall(Slot* slots, std::span<const uint32_t> in, std::span<const uint32_t> out)
      : slots_(slots), in_(in), out_(out) {}

  int inputs() const { return static_cast<int>(in_.size()); }
  int outputs() const { return static_cast<int>(out_.size()); }
  bool has(int i) const { return i < inputs() && slots_[in_[i]].present; }
  DType dtype(int i) const { return slots_[in_[i]].dtype; }
  int rank(int i) const { return slots_[in_[i]].shape.rank(); }
  int64_t dim(int i, int k) const { return slots_[in_[i]].shape[k]; }
  std::span<const int64_t> dims(int i) const { return slots_[in_[i]].shape.dims(); }
  // The integers in input i, when they are known; floats are truncated.
  std::optional<std::span<const int64_t>> content(int i);
  // The numbers in input i, when they are known.
  std::optional<std::vector<double>> reals(int i) const;
  // Likewise the first of them.
  std::optional<double> real(int i) const;
  // Number of elements in input i.
  int64_t count(int i) const { return slots_[in_[i]].shape.count(); }

  Status set(int o, std::span<const int64_t> dims);
  Status set(int o, const DimVec<int64_t>& dims) { return set(o, dims.span()); }
  // A dimension that depends on data cannot be had here: such operators have no shape function.
  int64_t fresh() { return 0; }
  // The shape needs content that is not known.
  Status unknown(int o, int rank = -1);
  Status refuse(int i, std::string_view wanted) const;

 private:
  Slot* slots_;
  std::span<const uint32_t> in_, out_;
  std::vector<int64_t> decoded_[2];
  int next_decoded_ = 0;
};

template <>
class ShapeCall<Dim> {
 public:
  ShapeCall(DimPool& pool, std::span<const Fact* const> in, std::span<Fact> out) : pool_(pool), in_(in), out_(out) {}

  int inputs() const { return static_cast<int>(in_.size()); }
  int outputs() const { return static_cast<int>(out_.size()); }
  bool has(int i) const { return i < inputs() && in_[i]; }
  DType dtype(int i) const { return in_[i]->dtype; }
  int rank(int i) const { return static_cast<int>(in_[i]->shape->size()); }
  Dim dim(int i, int k) const { return (*in_[i]->shape)[k]; }
  std::span<const Dim> dims(int i) const { return *in_[i]->shape; }
  std::optional<std::span<const Dim>> content(int i) const;
  std::optional<std::vector<double>> reals(int i) const;
  std::optional<double> real(int i) const;
  Dim count(int i) const;

  Status set(int o, std::span<const Dim> dims);
  Status set(int o, const DimVec<Dim>& dims) { return set(o, dims.span()); }
  // What is known of the elements of a small integer output.
  void set_content(int o, std::span<const Dim> elements);
  const Fact* fact(int i) const { return i < inputs() ? in_[i] : nullptr; }
  Dim fresh() { return pool_.fresh(); }
  Status unknown(int o, int rank = -1);
  Status refuse(int i, std::string_view wanted) const;

 private:
  DimPool& pool_;
  std::span<const Fact* const> in_;
  std::span<Fact> out_;
};

using ShapeFn = Status(const void* params, ShapeCall<int64_t>&);
using SymbolicShapeFn = Status(const void* params, ShapeCall<Dim>&);

// ---------------------------------------------------------------------------------------------- running

// A compiled subgraph. Captured values are read in place from the enclosing run.
class Body {
 public:
  virtual ~Body() = default;
  virtual int inputs() const = 0;
  virtual int outputs() const = 0;
  // Takes the inputs: what nobody else holds may be changed in place. Tensors of the right type and shape given as
  // outputs are written in place, anything else there is replaced.
  virtual Status run(std::span<Value> inputs, std::span<Value> outputs) = 0;
};

// What the runtime lends to a kernel for the length of one run.
struct RunScope {
  int threads = 1;
  Target target = Target::scalar;
  const std::atomic<bool>* cancel = nullptr;
  uint64_t seed = 0;                     // of this run, for operators without a seed of their own
  int64_t max_tensor_bytes = INT64_MAX;  // larger values are refused before memory is asked for
  int64_t max_run_bytes = INT64_MAX;     // likewise for all activations of a plan together
};

// Everything a kernel may touch during one call. Inputs have the types that the kernel asked for; indexes past the end
// of the node's list behave as absent.
class Call {
 public:
  struct Frame {
    Slot* slots;
    Value* held;
    const ir::Node* node;
    const RunScope* scope;
    std::span<const uint32_t> in, out;
    std::span<const void* const> packed;  // per input, or empty
    std::span<Body* const> bodies;
    std::byte* scratch = nullptr;
    int64_t scratch_bytes = 0;       // per lane
    const bool* last_use = nullptr;  // per input
    const void* prepared = nullptr;
  };
  explicit Call(const Frame& frame) : f_(frame) {}

  int inputs() const { return static_cast<int>(f_.in.size()); }
  int outputs() const { return static_cast<int>(f_.out.size()); }
  bool has(int i) const { return i < inputs() && (slot(i).present || !f_.held[f_.in[i]].empty()); }
  // Present and a tensor: the only inputs that have a dtype, a shape and memory.
  bool is_tensor(int i) const { return i < inputs() && slot(i).present; }
  DType dtype(int i) const { return slot(i).dtype; }
  const Shape& shape(int i) const { return slot(i).shape; }
  int64_t count(int i) const { return slot(i).shape.count(); }
  const void* in(int i) const { return slot(i).data; }
  template <class T>
  const T* in(int i) const {
    return static_cast<const T*>(slot(i).data);
  }
  // Null when the optional input is absent.
  template <class T>
  const T* maybe(int i) const {
    return has(i) ? in<T>(i) : nullptr;
  }
  // An int32 or int64 element of an input, widened.
  int64_t integer(int i, int64_t k) const { return dtype(i) == DType::i32 ? in<int32_t>(i)[k] : in<int64_t>(i)[k]; }

  bool wants(int o) const { return o < outputs() && f_.out[o] != 0; }
  DType out_dtype(int o) const { return out_slot(o).dtype; }
  const Shape& out_shape(int o) const { return out_slot(o).shape; }
  int64_t out_count(int o) const { return out_slot(o).shape.count(); }
  // Memory of an output whose shape the shape function gave. Null when the output is not wanted.
  void* out(int o);
  template <class T>
  T* out(int o) {
    return static_cast<T*>(out(o));
  }
  // For operators without a shape function: gives output o its shape and memory.
  Status allocate(int o, DType dtype, Shape shape);
  template <class T>
  Result<T*> allocate(int o, Shape shape) {
    TRY(allocate(o, dtype_of<T>, std::move(shape)));
    return static_cast<T*>(out_slot(o).data);
  }

  // Whole values. value() shares what it may keep and copies planned tensors and borrowed memory; take() gives up the
  // input's own reference at its last use.
  Result<Value> value(int i) const;
  Result<Value> take(int i);
  void set(int o, Value value);

  int threads() const { return f_.scope->threads; }
  Target target() const { return f_.scope->target; }
  // Long loops look at this every few milliseconds and return stopped().
  bool cancelled() const { return f_.scope->cancel && f_.scope->cancel->load(std::memory_order_relaxed); }
  Status stopped() const { return error(Code::canceled, "the run was cancelled"); }
  uint64_t seed() const { return f_.scope->seed; }
  void parallel(int64_t chunks, ChunkFn fn) const { parallel_for(threads(), chunks, fn); }
  template <class T>
  T* scratch(int lane) const {
    return reinterpret_cast<T*>(f_.scratch + lane * f_.scratch_bytes);
  }
  const void* packed(int i) const { return i < static_cast<int>(f_.packed.size()) ? f_.packed[i] : nullptr; }
  Body& body(int k) const { return *f_.bodies[k]; }
  template <class T>
  const T& prepared() const {
    return *static_cast<const T*>(f_.prepared);
  }
  const ir::Node& node() const { return *f_.node; }

  // "input 1 'w' is int64[3], wanted ...": the runtime adds the node.
  Status refuse(int i, std::string_view wanted) const;
  template <class... A>
  Status refuse(int i, std::string_view wanted, const A&... args) const {
    return refuse(i, std::string_view(format(wanted, args...)));
  }

 private:
  Slot& slot(int i) const { return f_.slots[f_.in[i]]; }
  Slot& out_slot(int o) const { return f_.slots[f_.out[o]]; }
  Frame f_;
};

using ComputeFn = Status(const void* params, Call&);

// What the size of a kernel's scratch may depend on.
struct ScratchCall {
  std::span<const Shape* const> shapes;  // of the inputs
  uint32_t packed = 0;                   // in_arg() of those that come packed

  const Shape* operator[](size_t i) const { return shapes[i]; }
  size_t size() const { return shapes.size(); }
  bool is_packed(int i) const { return packed >> i & 1; }
};

// One type variable of a kernel: the arguments that share a type, the types the code is written for, and those that the
// runtime may convert to the (single) native type and back, rounding once. Arguments named by a rule are tensors.
struct TypeRule {
  uint32_t args;
  TypeSet native;
  TypeSet widened = {};
};
constexpr uint32_t in_arg(int i) { return 1u << i; }
constexpr uint32_t out_arg(int o) { return 1u << (16 + o); }
inline constexpr uint32_t kRestIn = 1u << 15;   // inputs from the next on
inline constexpr uint32_t kRestOut = 1u << 31;  // outputs from the next on

struct Kernel {
  std::span<const TypeRule> when;
  ComputeFn* compute;
};

// The constants that one packed weight is made of.
struct PackCall {
  const void* params;
  std::span<const Tensor* const> inputs;  // of the node; null where absent or no part of the pack
  int threads = 1;

  template <class P>
  const P& as() const {
    return *static_cast<const P*>(params);
  }
  bool has(int i) const { return i < static_cast<int>(inputs.size()) && inputs[static_cast<size_t>(i)]; }
  const Tensor& tensor(int i) const { return *inputs[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return tensor(i).shape(); }
  DType dtype(int i) const { return tensor(i).dtype(); }
  template <class T>
  const T* in(int i) const {
    return static_cast<const T*>(tensor(i).data());
  }
};

// A constant input that the kernel wants in another layout. Pure, and the same bytes on every CPU.
struct Packing {
  int input;  // Call::packed(input) gives the bytes; in(input) is not touched then
  const char* layout;
  // How many; 0: this weight is used as it is. Depends on types, shapes and parameters alone.
  int64_t (*bytes)(const PackCall&);
  void (*pack)(const PackCall&, void* out);
  // The part of the parameters that the packed bytes depend on.
  int64_t (*variant)(const void* params) = nullptr;
  // Of the weights it takes, as the model has them. A weight that the kernel would see widened is packed from its own
  // type if that is one of these, and Call::dtype(input) tells so.
  TypeSet types = set_of(DType::f32);
  uint32_t with = 0;  // in_arg() of further inputs that go into the bytes; those that are present must be constants
};

struct Op {
  const char* domain;
  const char* name;
  std::span<const int16_t> versions;  // every since-version of the operator, ascending; the last is open-ended
  Status (*parse)(Attrs&, std::shared_ptr<const void>*) = nullptr;
  TypeFn* types = type_of_input<0>;
  ShapeFn* shape = nullptr;  // null: the kernel allocates its outputs, or they are no tensors
  std::span<const Kernel> kernels;
  uint32_t shape_inputs = 0;   // inputs whose content the shape function reads
  uint32_t header_only = 0;    // inputs of which only the shape is read
  int view = -1;               // output 0 is input `view` under another shape
  uint32_t inplace = 0;        // inputs whose memory output 0 may take over when sizes agree
  uint32_t rounded = 0;        // inputs that are always rounded to the type the model gives them
  bool random = false;         // two calls may differ: never folded, never run early
  bool maps_elements = false;  // its body sees the elements of sequences, not the sequences
  int64_t (*scratch)(const void* params, const ScratchCall& in) = nullptr;  // bytes per lane
  std::span<const Packing> packs = {};
  // Tables made once per session from the parameters (trees, twiddles).
  Status (*prepare)(const void* params, std::shared_ptr<const void>*) = nullptr;
  // Brings a node of an older version to the current inputs and attributes, before parsing.
  Status (*upgrade)(ir::Annotator& graph, ir::NodeId node, int since) = nullptr;
  // An operator that is a composition of others: builds what replaces the node at load (compose.h).
  Status (*compose)(Composer&) = nullptr;
};

// What is known of an input of a body in its first run, and which output of the body, if any, takes its place in the
// next one.
struct BodyInput {
  Fact fact;
  int next = -1;
};

// What full builds know beside.
struct OpInference {
  SymbolicShapeFn* shape = nullptr;
  // Full control, for operators on sequences, optionals and bodies.
  Status (*infer)(const ir::Node& node, const void* params, DimPool& dims, std::span<const Fact* const> in,
                  std::span<Fact> out) = nullptr;
  // Of the inputs of its body; without it they have the types of the node's inputs.
  std::vector<BodyInput> (*body_inputs)(const void* params, std::span<const Fact* const> in) = nullptr;
};

// ---------------------------------------------------------------------------------------------- glue

template <class P, Status (*F)(Attrs&, P&)>
Status parse_params(Attrs& attrs, std::shared_ptr<const void>* out) {
  auto p = std::make_shared<P>();
  TRY(F(attrs, *p));
  TRY(attrs.done());
  *out = std::move(p);
  return {};
}
template <class P, Status (*F)(const P&, Call&)>
Status compute_with(const void* params, Call& call) {
  return F(*static_cast<const P*>(params), call);
}
template <Status (*F)(Call&)>
Status compute_plain(const void*, Call& call) {
  return F(call);
}
template <class P, class D, Status (*F)(const P&, ShapeCall<D>&)>
Status shape_with(const void* params, ShapeCall<D>& c) {
  return F(*static_cast<const P*>(params), c);
}
template <class D, Status (*F)(ShapeCall<D>&)>
Status shape_plain(const void*, ShapeCall<D>& c) {
  return F(c);
}

// Output 0 (and every further one) has the shape of input I.
template <class D, int I = 0>
Status shape_of_input(const void*, ShapeCall<D>& c) {
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, c.dims(I)));
  return {};
}

// ---------------------------------------------------------------------------------------------- tables

// The operators a library was linked with (op_table.cc, made from ops.txt), ordered by domain, then name.
std::span<const Op* const> op_table();
// The inference of op_table()[i]; empty in libraries linked without it.
std::span<const OpInference* const> inference_table();

// Null if this library does not have the operator.
const Op* find_op(std::string_view domain, std::string_view name);
// The index of an operator in op_table(), or -1 for operators added at run time.
int op_index(const Op* op);

// The first kernel that takes these types; fills `convert_to` per argument (inputs, then outputs; undefined: as it is).
const Kernel* choose_kernel(const Op& op, std::span<const TypeDesc> in, std::span<const TypeDesc> out,
                            std::span<DType> convert_to);

}  // namespace tessera
