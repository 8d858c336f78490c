// tessera pack: packs the weights of models once, so that opening them packs nothing.
#include "base/file.h"
#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "runtime/pack_file.h"
#include "session/save.h"

namespace tessera::cli {
namespace {

struct Options {
  std::vector<std::string> models;
  bool verify = false;
  int threads = 0;
};

std::string pack_name(const std::string& model) { return model + ".pack"; }

Status pack(const std::string& model, const Options& o) {
  SessionOptions options;
  options.pack_file = "off";  // made anew, from the weights themselves
  options.threads = o.threads;
  TRY_ASSIGN(session, open_session(model, options));
  TRY_ASSIGN(saved, save_packs(*session, pack_name(model)));
  std::printf("%s: %lld packed weights, %s\n", pack_name(model).c_str(), static_cast<long long>(saved.packs),
              human_bytes(saved.bytes).c_str());
  return {};
}

Status verify(const std::string& model, const Options& o) {
  Result<std::shared_ptr<Bytes>> bytes = map_file(pack_name(model));
  if (!bytes.ok())
    return error(bytes.status().code(), "{}; write it with `tessera pack {}`", bytes.status().message(), model);
  TRY_ASSIGN(packs, PackFile::read(std::move(*bytes)));
  TRY(packs->verify());
  SessionOptions options;
  options.pack_strict = true;
  options.threads = o.threads;
  TRY_ASSIGN(session, open_session(model, options));
  const Counters c = session->memory().counters;
  const int64_t used = c.packs_mapped + c.packs_shared;
  std::printf("%s: %zu packed weights whole, %lld of them used by the model\n", pack_name(model).c_str(),
              packs->entries().size(), static_cast<long long>(used));
  return {};
}

int run(const Options& o) {
  int code = kOk;
  for (const std::string& model : o.models)
    if (const Status s = o.verify ? verify(model, o) : pack(model, o); !s.ok()) code = complain(s.message(), kFailed);
  return code;
}

}  // namespace

void add_pack(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("pack", "Write MODEL.pack: weights as the kernels want them, mapped at load");
  cmd->footer("Examples:\n  tessera pack model.onnx\n  tessera pack --verify model.onnx\n");
  cmd->add_option("models", o->models, "Model files")->required();
  cmd->add_flag("--verify", o->verify, "Check that MODEL.pack is whole and of this model instead");
  cmd->add_option("--threads", o->threads, "Threads to pack with (default: all)")->check(CLI::Range(0, 4096));
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tessera::cli
