// Initializers and files of external data that the client hands over.
#include <cstring>

#include "base/file.h"
#include "capi/extension_files.h"
#include "capi/guard.h"
#include "capi/options.h"
#include "capi/status.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {

Status add_external_buffer(OrtSessionOptions& options, ExternalBuffer buffer) {
  buffer.name = plain_name(buffer.name);
  if (buffer.name.empty()) return invalid("a file of external data has an empty name");
  for (const ExternalBuffer& b : options.external_buffers)
    if (b.name == buffer.name)
      return invalid("An entry for this name has already been added: external data {} is given twice",
                     quote(buffer.name));
  options.external_buffers.push_back(std::move(buffer));
  return {};
}

namespace {

Status add_files(OrtSessionOptions* options, const ORTCHAR_T* const* names, char* const* buffers, const size_t* sizes,
                 size_t count) {
  TRY(not_null({{"options", options}}));
  if (count == 0) return {};
  TRY(not_null({{"external_initializer_file_names", names},
                {"external_initializer_file_buffer_array", buffers},
                {"external_initializer_file_lengths", sizes}}));
  const std::vector<ExternalBuffer> before = options->external_buffers;
  Status status;
  for (size_t i = 0; i < count && status.ok(); ++i) {
    status = not_null({{"a file name", names[i]}, {"a file buffer", buffers[i]}});
    if (status.ok()) status = add_external_buffer(*options, {.name = names[i], .data = buffers[i], .size = sizes[i]});
  }
  if (!status.ok()) options->external_buffers = before;
  return status;
}

Status give(OrtSessionOptions& options, const char* name, const OrtValue* value, bool required) {
  TRY(not_null({{"an initializer's name", name}, {"an initializer", value}}));
  if (!*name) return invalid("an initializer has an empty name");
  TRY_ASSIGN(tensor, tensor_in(value));
  if (!options.options.given_initializers.try_emplace(name, SessionOptions::Given{*tensor, required}).second)
    return invalid("initializer {} is given twice", quote(name));
  return {};
}

// Used in place: the client keeps the memory of its tensor alive, or the library owns it.
Status add_initializer(OrtSessionOptions* options, const char* name, const OrtValue* value) {
  TRY(not_null({{"options", options}}));
  return give(*options, name, value, false);
}

Status add_initializers(OrtSessionOptions* options, const char* const* names, const OrtValue* const* values,
                        size_t count) {
  TRY(not_null({{"options", options}}));
  if (count) TRY(not_null({{"initializer_names", names}, {"initializers", values}}));
  const auto before = options->options.given_initializers;
  Status status;
  for (size_t i = 0; i < count && status.ok(); ++i) status = give(*options, names[i], values[i], true);
  if (!status.ok()) options->options.given_initializers = before;
  return status;
}

// Calls the client's release when the last who uses its context is gone.
std::shared_ptr<void> owned_context(void* context, TesseraReleaseFn release) {
  return {context, [release](void* c) {
            if (release) release(c);
          }};
}

}  // namespace

Status add_external_file(OrtSessionOptions* options, const ORTCHAR_T* name, const void* data, size_t size,
                         TesseraReleaseFn release, void* context) {
  TRY(not_null({{"options", options}, {"name", name}}));
  if (size) TRY(not_null({{"data", data}}));
  struct Holder {
    TesseraReleaseFn release;
    void* context;
  };
  auto holder = std::make_unique<Holder>(Holder{nullptr, context});
  Holder* const h = holder.get();
  auto bytes = std::make_shared<Bytes>(
      Bytes::Origin::borrowed, const_cast<void*>(data), size,
      [](void*, size_t, void* c) {
        const std::unique_ptr<Holder> own(static_cast<Holder*>(c));
        if (own->release) own->release(own->context);
      },
      holder.release(), name);
  TRY(add_external_buffer(*options, {.name = name, .kept = bytes}));
  h->release = release;  // a call that fails releases nothing
  return {};
}

Status add_external_reader(OrtSessionOptions* options, const ORTCHAR_T* name, uint64_t size, TesseraReadFn read,
                           TesseraReleaseFn release, void* context) {
  TRY(not_null({{"options", options}, {"name", name}, {"read", reinterpret_cast<const void*>(read)}}));
  TRY(add_external_buffer(*options, {.name = name}));
  auto reader = std::make_shared<SessionOptions::Reader>();
  reader->size = size;
  reader->read = [read, held = owned_context(context, release)](uint64_t offset, size_t length, void* to) {
    return from_ort(read(held.get(), offset, length, to));
  };
  options->external_buffers.back().reader = std::move(reader);
  return {};
}

Status add_external_descriptor(OrtSessionOptions* options, const ORTCHAR_T* name, int fd, uint64_t offset,
                               uint64_t size) {
  TRY(not_null({{"options", options}, {"name", name}}));
  TRY_ASSIGN(bytes, map_descriptor(fd, offset, size, name));
  return add_external_buffer(*options, {.name = name, .kept = std::move(bytes)});
}

void fill_initializers(OrtApi& api) {
  api.AddInitializer = slot<add_initializer>;
  api.AddExternalInitializers = slot<add_initializers>;
  api.AddExternalInitializersFromFilesInMemory = slot<add_files>;
}

}  // namespace tessera::capi
