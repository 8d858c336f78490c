#include "common/load.h"

#include <filesystem>

#include "common/npy.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/writer.h"
#include "formats/ort/reader.h"
#include "ir/text.h"

namespace tessera::cli {
namespace {

std::string_view view_of(const Bytes& b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

}  // namespace

bool is_text_model(const std::string& path) { return path.ends_with(".onnxtxt") || path.ends_with(".onnx.txt"); }

Result<Model> load_model_file(const std::string& path) {
  TRY_ASSIGN(bytes, map_file(path));
  if (is_text_model(path)) {
    Result<Model> model = parse_text(view_of(*bytes));
    if (!model.ok()) return model.take_status().in(quote(path));
    return model;
  }
  TRY_ASSIGN(folder, Folder::open(folder_of(path)));
  ExternalData external(folder);
  const bool from_ort = ort::is_ort_model(*bytes);
  Result<Model> model =
      from_ort ? ort::read_model(std::move(bytes), external) : onnx::read_model(std::move(bytes), external);
  if (!model.ok()) return model.take_status().in(quote(path));
  return model;
}

Result<std::shared_ptr<Session>> open_session(const std::string& path, const SessionOptions& options) {
  if (!is_text_model(path)) return Session::open(path, options);
  TRY_ASSIGN(model, load_model_file(path));
  TRY_ASSIGN(written, onnx::write_model(model));
  TRY_ASSIGN(bytes, allocate_bytes(written.size()));
  std::copy(written.begin(), written.end(), reinterpret_cast<char*>(bytes->data()));
  Result<std::shared_ptr<Session>> session = Session::from_bytes(bytes, options);
  if (!session.ok()) return session.take_status().in(quote(path));
  return session;
}

Result<Value> load_value(const std::string& path, const Fact& fact) {
  TRY_ASSIGN(bytes, map_file(path));
  if (path.ends_with(".npy")) {
    Result<Tensor> t = read_npy(view_of(*bytes), fact.dtype);
    if (!t.ok()) return t.take_status().in(quote(path));
    return Value(std::move(*t));
  }
  Result<Value> v = onnx::read_value(std::move(bytes), fact);
  if (!v.ok()) return v.take_status().in(quote(path));
  return v;
}

Status check_output(const std::string& model, const std::string& output) {
  std::error_code not_there;
  if (!std::filesystem::equivalent(model, output, not_there)) return {};
  return invalid("{} is the model itself; give the output another name", quote(output));
}

std::string advice(const Status& status) {
  switch (status.code()) {
    case Code::no_such_file: return "check the path, and that external data files lie beside the model";
    case Code::invalid_protobuf: return "the file is damaged or no ONNX model: export or copy it again";
    case Code::invalid_graph: return "the file is no valid ONNX model: export it again, or see what onnx.checker says";
    case Code::not_implemented: return "the model uses something that is not supported: please report it";
    case Code::invalid_argument: return "change what the message names";
    default: return "check that the file and its external data are complete";
  }
}

}  // namespace tessera::cli
