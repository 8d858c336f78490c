// Domains of custom operators, and libraries that bring them.
#include <dlfcn.h>

#include "capi/custom_op.h"
#include "capi/extension_op.h"
#include "capi/guard.h"
#include "capi/topics.h"

namespace tessera::capi {

Result<CustomOps> custom_ops_of(const OrtSessionOptions& options, std::shared_ptr<const Logger> logger) {
  CustomOps out;
  if (options.custom_domains.empty() && options.extension_ops.empty()) return out;
  auto session = std::make_shared<CustomSession>();
  session->logger.logger = std::move(logger);
  session->config = options.options.config;
  session->libraries = options.custom_libraries;
  for (const auto& op : options.extension_ops) out.push_back(make_extension_op(session, op));
  for (const OrtCustomOpDomain* domain : options.custom_domains) add_callbacks(session, domain->name, domain->ops, out);
  return out;
}

namespace {

Status create(const char* name, OrtCustomOpDomain** out) {
  TRY(not_null({{"domain", name}, {"out", out}}));
  *out = new OrtCustomOpDomain{name, {}};
  return {};
}

void release(OrtCustomOpDomain* domain) { delete domain; }

Status add_op(OrtCustomOpDomain* domain, const OrtCustomOp* op) {
  TRY(not_null({{"custom_op_domain", domain}, {"op", op}}));
  if (op->version < 1 || op->version > ORT_API_VERSION)
    return invalid("a custom operator of API version {}; this library serves versions 1 to {}", op->version,
                   ORT_API_VERSION);
  TRY(not_null({{"OrtCustomOp::GetName", reinterpret_cast<const void*>(op->GetName)},
                {"OrtCustomOp::GetInputType", reinterpret_cast<const void*>(op->GetInputType)},
                {"OrtCustomOp::GetInputTypeCount", reinterpret_cast<const void*>(op->GetInputTypeCount)},
                {"OrtCustomOp::GetOutputType", reinterpret_cast<const void*>(op->GetOutputType)},
                {"OrtCustomOp::GetOutputTypeCount", reinterpret_cast<const void*>(op->GetOutputTypeCount)},
                {"OrtCustomOp::KernelDestroy", reinterpret_cast<const void*>(op->KernelDestroy)}}));
  constexpr uint32_t kHasStatus = 16;
  const bool second = op->version >= kHasStatus;
  if (!op->CreateKernel && !(second && op->CreateKernelV2))
    return invalid("OrtCustomOp::CreateKernel must not be null");
  if (!op->KernelCompute && !(second && op->KernelComputeV2))
    return invalid("OrtCustomOp::KernelCompute must not be null");
  if (!op->GetName(op)) return invalid("a custom operator has no name");
  domain->ops.push_back(op);
  return {};
}

Status add_domain(OrtSessionOptions* options, OrtCustomOpDomain* domain) {
  TRY(not_null({{"options", options}, {"custom_op_domain", domain}}));
  options->custom_domains.push_back(domain);
  return {};
}

constexpr char kEntry[] = "RegisterCustomOps";

// A name without a folder is looked for where the system looks for libraries.
Result<void*> open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  const char* why = dlerror();
  return error(Code::fail, "the library {} cannot be loaded: {}", quote(path), why ? why : "no reason given");
}

Status call_entry(OrtSessionOptions* options, void* symbol, const char* name) {
  if (!symbol) return error(Code::fail, "there is no function {}", quote(name));
  const auto entry = reinterpret_cast<RegisterCustomOpsFn>(symbol);
  return call_client([&] { return entry(options, OrtGetApiBase()); });
}

// The library stays open until the last session made with the options ends.
Status add_library(OrtSessionOptions* options, const ORTCHAR_T* path) {
  TRY(not_null({{"options", options}, {"library_name", path}}));
  TRY_ASSIGN(library, open_library(path));
  std::shared_ptr<void> open(library, [](void* l) { dlclose(l); });
  Status status = call_entry(options, dlsym(library, kEntry), kEntry);
  // Also after an error: what it has added so far may be used.
  options->custom_libraries.push_back(std::move(open));
  if (!status.ok()) return std::move(status).in(quote(path));
  return {};
}

// The caller closes the library.
Status add_library_of_caller(OrtSessionOptions* options, const char* path, void** handle) {
  TRY(not_null({{"options", options}, {"library_path", path}, {"library_handle", handle}}));
  TRY_ASSIGN(library, open_library(path));
  *handle = library;
  Status status = call_entry(options, dlsym(library, kEntry), kEntry);
  if (!status.ok()) return std::move(status).in(quote(path));
  return {};
}

// A function of the program, or of a library that it has loaded for all.
Status add_by_function(OrtSessionOptions* options, const char* name) {
  TRY(not_null({{"options", options}, {"registration_func_name", name}}));
  if (!*name) return invalid("the name of a function is empty");
  return call_entry(options, dlsym(RTLD_DEFAULT, name), name);
}

// The operators of that package come as a library of their own.
Status enable_extensions(OrtSessionOptions* options) {
  TRY(not_null({{"options", options}}));
  return error(Code::fail,
               "the operators of onnxruntime-extensions are not part of this library; load theirs with "
               "RegisterCustomOpsLibrary_V2");
}

}  // namespace

void fill_custom_op(OrtApi& api) {
  api.CreateCustomOpDomain = slot<create>;
  api.ReleaseCustomOpDomain = release;
  api.CustomOpDomain_Add = slot<add_op>;
  api.AddCustomOpDomain = slot<add_domain>;
  api.RegisterCustomOpsLibrary = slot<add_library_of_caller>;
  api.RegisterCustomOpsLibrary_V2 = slot<add_library>;
  api.RegisterCustomOpsUsingFunction = slot<add_by_function>;
  api.EnableOrtCustomOps = slot<enable_extensions>;
}

}  // namespace tessera::capi
