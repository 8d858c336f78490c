// The functions of libtessera_text.so, as operators see them.
#pragma once
#include <string>

#include "base/status.h"
#include "companions/text.h"

namespace tessera {

// Opens the library at the first call.
Result<const TesseraText*> text_library();

// `text` in upper or lower case, whatever the locale; false if it is not UTF-8.
bool change_case(const TesseraText& library, bool upper, const std::string& text, std::string* out);

}  // namespace tessera
