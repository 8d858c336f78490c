#include "session/options.h"

#include <charconv>

namespace tessera {
namespace {

bool parse_number(const std::string& text, int64_t& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc() && end == text.data() + text.size();
}

}  // namespace

Status SessionOptions::set(const std::string& key, const std::string& value) {
  if (key == "session.execution_order") {
    if (value == "default" || value == "0")
      order = ExecutionOrder::planned;
    else if (value == "priority_based" || value == "1")
      order = ExecutionOrder::priority_based;
    else if (value == "memory_efficient" || value == "2")
      order = ExecutionOrder::memory_efficient;
    else if (value == "file_order")
      order = ExecutionOrder::file_order;
    else
      return invalid("{} is {}, wanted default, priority_based, memory_efficient or file_order", key, quote(value));
  } else if (key == "session.cpu_target") {
    Target t;
    if (!parse_target(value, &t))
      return invalid("{} is {}, wanted scalar, sse4, avx2, avx512 or neon", key, quote(value));
    target = std::min(t, best_target());
  } else if (key == "session.external_data_strict") {
    strict_external_data = value == "1";
  } else if (key == "optimization.disable_specified_optimizers") {
    disabled_rewrites.clear();
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find_first_of(",;", begin), value.size());
      if (end > begin) disabled_rewrites.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  } else if (key == "session.disable_quant_qdq") {
    if (value != "0" && value != "1") return invalid("{} is {}, wanted 0 or 1", key, quote(value));
    rewrites.keep_qdq = value == "1";
  } else if (key == "session.qdq_matmulnbits_accuracy_level") {
    int64_t level = 0;
    if (!parse_number(value, level) || level < 0 || level > 4)
      return invalid("{} is {}: the accuracy level must be between 0 and 4", key, quote(value));
    rewrites.accuracy_level = static_cast<int>(level);
  } else if (key == "session.qdq_matmulnbits_block_size") {
    // Weights without blocks need none; the key is checked as ONNX Runtime does.
    int64_t size = 0;
    if (!parse_number(value, size) || (size != 0 && size != -1 && (size < 16 || size > 256 || (size & (size - 1)))))
      return invalid("{} is {}: the block size must be a power of two in [16, 256], or 0 or -1", key, quote(value));
  } else if (key == "session.pack_file") {
    pack_file = value;
  } else if (key == "session.pack_verify" || key == "session.pack_strict" || key == "session.allow_newer_opsets") {
    if (value != "0" && value != "1") return invalid("{} is {}, wanted 0 or 1", key, quote(value));
    bool& flag = key == "session.pack_verify"   ? pack_verify
                 : key == "session.pack_strict" ? pack_strict
                                                : allow_newer_opsets;
    flag = value == "1";
  } else if (key == "session.max_tensor_bytes" || key == "session.max_run_bytes" || key == "session.most_rewrites") {
    int64_t bytes = 0;
    if (!parse_number(value, bytes) || bytes < 0) return invalid("{} is {}, wanted a number", key, quote(value));
    (key == "session.max_tensor_bytes" ? max_tensor_bytes
     : key == "session.max_run_bytes"  ? max_run_bytes
                                       : most_rewrites) = bytes;
  }
  if (key == "session.pack_cache_dir") {
    pack_cache_dir = value;
  } else if (key == "session.guard_mapped_files" || key == "session.disable_prepacking" ||
             key == "session.external_initializers_borrow" ||
             key == "session.save_external_prepacked_constant_initializers") {
    if (value != "0" && value != "1") return invalid("{} is {}, wanted 0 or 1", key, quote(value));
    if (key == "session.guard_mapped_files") copy_mapped_files = value == "1";
    if (key == "session.disable_prepacking") pack_weights = value == "0";
  }
  config[key] = value;
  return {};
}

}  // namespace tessera
