// Models of a few nodes, written field by field as the bytes of an .onnx file: for tests that see the library from
// outside only.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tiny {

// A protobuf message under construction; the numbers are those of onnx.proto.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t v) {
    for (; v >= 128; v >>= 7) bytes_ += static_cast<char>(v | 128);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

enum : int { kFloat = 1, kInt64 = 7, kString = 8 };

// A dimension is a number, or a name.
struct Dim {
  Dim(int64_t v) : value(v) {}
  Dim(const char* n) : name(n) {}
  int64_t value = 0;
  std::string name;
};

inline Message tensor_type(int type, const std::vector<Dim>& dims) {
  Message shape;
  for (const Dim& d : dims) {
    Message dim;
    if (d.name.empty())
      dim.number(1, static_cast<uint64_t>(d.value));
    else
      dim.text(2, d.name);
    shape.message(1, dim);
  }
  return Message().message(1, Message().number(1, static_cast<uint64_t>(type)).message(2, shape));
}
inline Message sequence_type(int type) {
  return Message().message(
      4, Message().message(1, Message().message(1, Message().number(1, static_cast<uint64_t>(type)))));
}
inline Message value(std::string_view name, const Message& type) { return Message().text(1, name).message(2, type); }
inline Message value(std::string_view name, int type, const std::vector<Dim>& dims) {
  return value(name, tensor_type(type, dims));
}

inline Message weight(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  Message m;
  for (const int64_t d : dims) m.number(1, static_cast<uint64_t>(d));
  std::string raw(values.size() * sizeof(float), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return m.number(2, kFloat).text(8, name).text(9, raw);
}
inline Message external_weight(std::string_view name, const std::vector<int64_t>& dims, std::string_view location) {
  Message m;
  for (const int64_t d : dims) m.number(1, static_cast<uint64_t>(d));
  return m.number(2, kFloat).text(8, name).message(13, Message().text(1, "location").text(2, location)).number(14, 1);
}

inline Message node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  Message m;
  for (const std::string& i : inputs) m.text(1, i);
  for (const std::string& o : outputs) m.text(2, o);
  return m.text(3, std::string("to ").append(outputs[0])).text(4, op);
}

struct Graph {
  std::vector<Message> nodes = {}, weights = {}, inputs = {}, outputs = {};
};

// The bytes of the file.
inline std::string model(const Graph& from) {
  Message graph;
  for (const Message& n : from.nodes) graph.message(1, n);
  graph.text(2, "tiny");
  for (const Message& w : from.weights) graph.message(5, w);
  graph.text(10, "of few nodes");
  for (const Message& i : from.inputs) graph.message(11, i);
  for (const Message& o : from.outputs) graph.message(12, o);
  return Message()
      .number(1, 8)
      .text(2, "hand")
      .text(4, "example.org")
      .number(5, 42)
      .text(6, "for tests")
      .message(7, graph)
      .message(8, Message().text(1, "").number(2, 17))
      .message(14, Message().text(1, "colour").text(2, "blue"))
      .bytes();
}

// sum[n,3] = x[n,3] + w, positive = max(sum, 0); w = 1 -2 3, or in the file `location`.
inline std::string add_relu(std::string_view location = {}) {
  return model({.nodes = {node("Add", {"x", "w"}, {"sum"}), node("Relu", {"sum"}, {"positive"})},
                .weights = {location.empty() ? weight("w", {3}, {1, -2, 3}) : external_weight("w", {3}, location)},
                .inputs = {value("x", kFloat, {"n", 3})},
                .outputs = {value("sum", kFloat, {"n", 3}), value("positive", kFloat, {"n", 3})}});
}

// y = Identity(x), of any type.
inline std::string identity(const Message& type) {
  return model(
      {.nodes = {node("Identity", {"x"}, {"y"})}, .inputs = {value("x", type)}, .outputs = {value("y", type)}});
}

// y[n,size] = x[n,size] times the same matrix, `times` times; the matrix swaps neighbours, so nothing overflows.
inline std::string swapping(int64_t size, int times) {
  std::vector<float> swap(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i) swap[static_cast<size_t>(i * size + (i ^ 1))] = 1;
  Graph g{.weights = {weight("w", {size, size}, swap)},
          .inputs = {value("x", kFloat, {"n", size})},
          .outputs = {value("y", kFloat, {"n", size})}};
  for (int i = 0; i < times; ++i)
    g.nodes.push_back(node("MatMul", {i ? "h" + std::to_string(i) : "x", "w"},
                           {i + 1 < times ? "h" + std::to_string(i + 1) : std::string("y")}));
  return model(g);
}

}  // namespace tiny
