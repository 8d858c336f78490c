#include "capi/not_implemented.h"

#include <string_view>

#include "capi/guard.h"

namespace tessera::capi {
namespace {

// What to use instead, by the table and a part of the function's name. The first that fits counts.
struct Advice {
  std::string_view table, part, text;
};

constexpr Advice kAdvice[] = {
    {"OrtTrainingApi", "", "train with a library that has training, and run the exported model here"},
    {"OrtEpApi", "",
     "this library computes on the CPU only; add operators of your own with CustomOpDomain_Add or "
     "RegisterCustomOpsLibrary"},
    {"OrtInteropApi", "", "tensors are in CPU memory here; make them with CreateTensorWithDataAsOrtValue"},
    {"OrtModelPackageApi", "", "open the model file of one variant with CreateSession"},
    {"", "Opaque", "values are tensors, sequences, maps, optionals and sparse tensors"},
    {"", "Provider", "this library computes on the CPU only; leave the provider out"},
};

std::string_view advice_for(std::string_view table, std::string_view function) {
  for (const Advice& a : kAdvice)
    if ((a.table.empty() || a.table == table) && function.find(a.part) != function.npos) return a.text;
  return "the call had no effect";
}

}  // namespace

OrtStatus* not_implemented_status(const char* table, const char* function) noexcept {
  return guarded([&] {
    return error(Code::not_implemented, "{}::{} is not available in this build; {}", table, function,
                 advice_for(table, function));
  });
}

}  // namespace tessera::capi
