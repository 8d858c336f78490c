// OrtKeyValuePairs: text by key, in the order of keys.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/c_api.h"

struct OrtKeyValuePairs {
  std::map<std::string, std::string> entries;
  // What GetKeyValuePairs hands out; follows every change.
  std::vector<const char*> keys, values;

  void refresh() {
    keys.clear();
    values.clear();
    for (const auto& [key, value] : entries) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
};
