// tessera optimize: writes the optimised form of a model as standard .onnx.
#include <filesystem>

#include "commands.h"
#include "common/load.h"
#include "common/show.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string model, output, data;
  int64_t smallest = -1;
  bool packs = false;
  MachineOptions machine;
};

Status optimize(const Options& o) {
  TRY(check_output(o.model, o.output));
  SessionOptions options;
  TRY(o.machine.apply(options));
  options.pack_file = "off";
  options.optimized_model_path = o.output;
  if (!o.data.empty()) TRY(options.set("session.optimized_model_external_initializers_file_name", o.data));
  if (o.smallest >= 0)
    TRY(options.set("session.optimized_model_external_initializers_min_size_in_bytes", std::to_string(o.smallest)));
  TRY(options.set("session.save_external_prepacked_constant_initializers", o.packs ? "1" : "0"));
  TRY_ASSIGN(session, open_session(o.model, options));
  for (const std::string& warning : session->warnings()) std::fprintf(stderr, "%s\n", warning.c_str());
  TRY_ASSIGN(before, load_model_file(o.model));
  TRY_ASSIGN(after, load_model_file(o.output));
  std::error_code ignored;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(o.output, ignored));
  std::printf("%s: %zu nodes (of %zu), %s\n", o.output.c_str(), after.graph->nodes().size(),
              before.graph->nodes().size(), human_bytes(size).c_str());
  return {};
}

}  // namespace

void add_optimize(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("optimize", "Write the optimised form of a model as standard .onnx");
  cmd->footer(
      "Examples:\n  tessera optimize model.onnx fast.onnx\n"
      "  tessera optimize --data fast.bin --packs model.onnx fast.onnx\n");
  cmd->add_option("model", o->model, "Model file")->required();
  cmd->add_option("output", o->output, "File to write")->required();
  cmd->add_option("--data", o->data, "Put large weights into this file beside the output");
  cmd->add_option("--smallest", o->smallest, "Bytes from which a weight is large (default: 1024)");
  cmd->add_flag("--packs", o->packs, "Also write OUTPUT.pack: weights as the kernels want them");
  o->machine.add_to(*cmd);
  cmd->callback([o, &exit_code] {
    const Status s = optimize(*o);
    exit_code = s.ok() ? kOk : complain(s.message(), kFailed);
  });
}

}  // namespace tessera::cli
