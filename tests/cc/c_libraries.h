// The libraries that a test of the C ABI runs with: ours, and the one whose path is in TESSERA_OTHER_LIBRARY, if any.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "c_client.h"

namespace client {

struct Library {
  const char* name;
  const OrtApi& c;
  const OrtModelEditorApi& editor;
  OrtEnv* env;
  bool ours;
};

inline Library make_library(const char* name, const OrtApiBase* base) {
  const OrtApi& c = *base->GetApi(ORT_API_VERSION);
  OrtEnv* env = nullptr;
  ok(c.CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &env), c);
  return {name, c, *c.GetModelEditorApi(), env, base == OrtGetApiBase()};
}

inline const std::vector<Library>& libraries() {
  static const std::vector<Library>& all = *[] {
    auto* list = new std::vector<Library>{make_library("ours", OrtGetApiBase())};
    const char* path = std::getenv("TESSERA_OTHER_LIBRARY");
    void* other = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (other) {
      const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(other, "OrtGetApiBase"));
      list->push_back(make_library("other", base()));
    }
    return list;
  }();
  return all;
}

inline std::string library_name(const testing::TestParamInfo<size_t>& info) { return libraries()[info.param].name; }

// A test for INSTANTIATE_TEST_SUITE_P(Libraries, TEST, testing::Range<size_t>(0, libraries().size()), library_name).
class LibraryTest : public testing::TestWithParam<size_t> {
 protected:
  const Library& lib() const { return libraries()[GetParam()]; }
  const OrtApi& c() const { return lib().c; }
  const OrtModelEditorApi& editor() const { return lib().editor; }
  void good(OrtStatus* status) const { ok(status, c()); }
  // Refused; only our library is asked for its words.
  void bad(OrtStatus* status, OrtErrorCode code, const std::string& part) const {
    const Outcome o = outcome(status, c());
    EXPECT_EQ(o.code, code) << o.message;
    if (lib().ours) {
      EXPECT_NE(o.message.find(part), std::string::npos) << o.message;
    }
  }
  // Refused, with whatever code.
  void refused(OrtStatus* status) const {
    EXPECT_NE(status, nullptr);
    c().ReleaseStatus(status);
  }
};

}  // namespace client
