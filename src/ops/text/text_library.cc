#include "ops/text/text_library.h"

#include "base/companion.h"

namespace tessera {
namespace {

constinit Companion text_companion("libtessera_text.so", "tessera_text", kTesseraTextVersion,
                                   "libre2-dev libutf8proc-dev");

}  // namespace

Result<const TesseraText*> text_library() {
  TRY_ASSIGN(table, text_companion.table());
  return static_cast<const TesseraText*>(table);
}

bool change_case(const TesseraText& library, bool upper, const std::string& text, std::string* out) {
  out->resize(text.size());
  int64_t n = library.change_case(upper, text.data(), text.size(), out->data(), out->size());
  if (n > static_cast<int64_t>(out->size())) {
    out->resize(static_cast<size_t>(n));
    n = library.change_case(upper, text.data(), text.size(), out->data(), out->size());
  }
  if (n < 0) return false;
  out->resize(static_cast<size_t>(n));
  return true;
}

}  // namespace tessera
