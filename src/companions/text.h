// What libtessera_text.so offers: regular expressions (re2) and case mapping (utf8proc), as a table of C functions.
// Nothing crosses the border but plain data; nothing throws; every function may be called from any thread.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr uint32_t kTesseraTextVersion = 2;

struct TesseraText {
  // A compiled pattern of re2's syntax that uses at most max_bytes of memory, or null and why, as a string, in
  // message[room].
  void* (*regex_compile)(const char* pattern, size_t size, int64_t max_bytes, char* message, size_t room);
  // 1 if all of the text matches, 0 if not (a text that is not UTF-8 never does), -1 if memory ran out.
  int (*regex_full_match)(const void* regex, const char* text, size_t size);
  void (*regex_free)(void* regex);
  // The same as regex_compile, for regex_search: of the matches that begin first, the longest.
  void* (*regex_compile_longest)(const char* pattern, size_t size, int64_t max_bytes, char* message, size_t room);
  // 1 and where the first match at or behind `from` begins and ends; 0 if there is none; -1 if memory ran out.
  int (*regex_search)(const void* regex, const char* text, size_t size, size_t from, size_t* begin, size_t* end);

  // The text in upper or lower case by Unicode's full mappings ("ß" becomes "SS", a final "Σ" becomes "ς"), whatever
  // the locale. Returns its size and writes it if it is at most `room`; -1 if the text is not UTF-8.
  int64_t (*change_case)(int upper, const char* text, size_t size, char* out, size_t room);
};

// Null if the library does not offer this version.
__attribute__((visibility("default"))) const TesseraText* tessera_text(uint32_t version);

}  // extern "C"
