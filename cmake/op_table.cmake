# Emits op_table.cc (operators, for every library) and inference_table.cc (for full ones) from src/ops/ops.txt.
# An operator "domain:Name" has the symbol k<Domain>Name, with the domain's last part capitalised ("ai.onnx.ml" -> Ml).
function(tessera_emit_op_tables list out_dir out_sources)
  file(STRINGS ${list} lines REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  set(sources)
  set(keys)
  foreach(line IN LISTS lines)
    separate_arguments(words UNIX_COMMAND "${line}")
    list(POP_FRONT words file)
    list(APPEND sources src/ops/${file})
    foreach(word IN LISTS words)
      set(domain "")
      set(name ${word})
      if(word MATCHES "^(.+):(.+)$")
        set(domain ${CMAKE_MATCH_1})
        set(name ${CMAKE_MATCH_2})
      endif()
      set(prefix "")
      if(domain MATCHES "([a-z])([a-z]*)$")
        string(TOUPPER "${CMAKE_MATCH_1}" first)
        set(prefix "${first}${CMAKE_MATCH_2}")
      endif()
      list(APPEND keys "${domain} ${name} k${prefix}${name}")
    endforeach()
  endforeach()
  list(SORT keys)
  set(declare_ops "")
  set(declare_inference "")
  set(ops "")
  set(inference "")
  foreach(key IN LISTS keys)
    string(REGEX MATCH "[^ ]+$" symbol "${key}")
    string(APPEND declare_ops "extern const Op ${symbol};\n")
    string(APPEND declare_inference "extern const OpInference ${symbol}Inference;\n")
    string(APPEND ops "    &${symbol},\n")
    string(APPEND inference "    &${symbol}Inference,\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out_dir}/op_table.cc CONTENT
"#include \"ops/op.h\"
namespace tessera {
@declare_ops@namespace {
constexpr const Op* kOps[] = {
@ops@};
}
std::span<const Op* const> op_table() { return kOps; }
}
" @ONLY)
  file(CONFIGURE OUTPUT ${out_dir}/inference_table.cc CONTENT
"#include \"ops/op.h\"
namespace tessera {
@declare_inference@namespace {
constexpr const OpInference* kInference[] = {
@inference@};
}
std::span<const OpInference* const> inference_table() { return kInference; }
}
" @ONLY)
  set(${out_sources} ${sources} PARENT_SCOPE)
endfunction()
