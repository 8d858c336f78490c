// tessera check: whether models load.
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/load.h"
#include "common/show.h"

namespace tessera::cli {
namespace {

struct Options {
  std::vector<std::string> models;
  bool json = false;
};

int check(const Options& o) {
  size_t failed = 0;
  auto report = nlohmann::json::array();
  for (const std::string& path : o.models) {
    const auto session = open_session(path, {});
    failed += !session.ok();
    if (o.json) {
      report.push_back({{"model", path}, {"ok", session.ok()}});
      if (!session.ok()) {
        report.back()["error"] = session.status().message();
        report.back()["advice"] = advice(session.status());
      }
    } else if (session.ok()) {
      std::printf("OK    %s: %zu nodes, %s of weights\n", path.c_str(), (*session)->loaded().plan->steps().size(),
                  human_bytes((*session)->memory().weight_bytes).c_str());
    } else {
      std::printf("FAIL  %s\n      %s\n", session.status().message().c_str(), advice(session.status()).c_str());
    }
  }
  if (o.json) std::printf("%s\n", report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  if (!o.json && o.models.size() > 1) std::printf("%zu OK, %zu failed\n", o.models.size() - failed, failed);
  return failed ? kFailed : kOk;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("check", "Load models and say whether they can be run");
  cmd->footer("Examples:\n  tessera check model.onnx\n  tessera check --json models/*.onnx\n");
  cmd->add_option("models", o->models, "Model files")->required();
  cmd->add_flag("--json", o->json, "Print a JSON list with one object per model");
  cmd->callback([o, &exit_code] { exit_code = check(*o); });
}

}  // namespace tessera::cli
