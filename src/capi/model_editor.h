// OrtModelEditorApi: models that a client puts together or extends.
#pragma once
#include "capi/graph.h"
#include "session/edit_model.h"

namespace tessera::capi {

const OrtModelEditorApi* model_editor_api() noexcept;

// Adds what the client put together to `model`.
Status add_to(EditableModel& model, const OrtModel& addition);

}  // namespace tessera::capi
