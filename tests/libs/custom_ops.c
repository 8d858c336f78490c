/* A library of custom operators as others write them: plain C over the C ABI, for any runtime that has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/c_api.h"

#define TRY(call)                \
  do {                           \
    OrtStatus* status_ = (call); \
    if (status_) return status_; \
  } while (0)

static const OrtApi* api;

static OrtStatus* fail(const char* text) { return api->CreateStatus(ORT_INVALID_ARGUMENT, text); }

/* --- what the operators share */

static ONNXTensorElementDataType of_float(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static ONNXTensorElementDataType of_string(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}
static ONNXTensorElementDataType of_int64(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}
static ONNXTensorElementDataType of_any(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}
static size_t one(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static size_t two(const OrtCustomOp* op) {
  (void)op;
  return 2;
}
static const char* on_cpu(const OrtCustomOp* op) {
  (void)op;
  return NULL;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}
static OrtCustomOpInputOutputCharacteristic second_optional(const OrtCustomOp* op, size_t index) {
  (void)op;
  return index == 0 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
}
static OrtCustomOpInputOutputCharacteristic second_variadic(const OrtCustomOp* op, size_t index) {
  (void)op;
  return index == 0 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_VARIADIC;
}
static OrtMemType default_memory(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return OrtMemTypeDefault;
}
static int at_least_two(const OrtCustomOp* op) {
  (void)op;
  return 2;
}
static int yes(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static int any_version(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static int last_version(const OrtCustomOp* op) {
  (void)op;
  return 2147483647;
}
static void free_kernel(void* kernel) { free(kernel); }

static OrtStatus* count_of(const OrtValue* value, size_t* count) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  TRY(api->GetTensorTypeAndShape(value, &info));
  OrtStatus* status = api->GetTensorShapeElementCount(info, count);
  api->ReleaseTensorTypeAndShapeInfo(info);
  return status;
}

static OrtStatus* dims_of(const OrtValue* value, int64_t* dims, size_t* rank) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  TRY(api->GetTensorTypeAndShape(value, &info));
  OrtStatus* status = api->GetDimensionsCount(info, rank);
  if (!status && *rank > 8) status = fail("more than 8 dimensions");
  if (!status) status = api->GetDimensions(info, dims, *rank);
  api->ReleaseTensorTypeAndShapeInfo(info);
  return status;
}

/* Input `index` and an output of the same shape. */
static OrtStatus* input_and_output(OrtKernelContext* context, size_t index, const float** x, float** y, size_t* count) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  int64_t dims[8];
  size_t rank = 0;
  TRY(api->KernelContext_GetInput(context, index, &in));
  TRY(dims_of(in, dims, &rank));
  TRY(count_of(in, count));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &out));
  TRY(api->GetTensorMutableData((OrtValue*)in, (void**)x));
  return api->GetTensorMutableData(out, (void**)y);
}

/* --- Scale: y = factor * x; the first form of the struct, without statuses */

typedef struct Scale {
  float factor;
} Scale;

static const char* scale_name(const OrtCustomOp* op) {
  (void)op;
  return "Scale";
}
static void* scale_create(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info) {
  Scale* kernel = malloc(sizeof *kernel);
  (void)op;
  OrtStatus* status = given->KernelInfoGetAttribute_float(info, "factor", &kernel->factor);
  if (status) kernel->factor = 2;
  given->ReleaseStatus(status);
  return kernel;
}
static void scale_compute(void* kernel, OrtKernelContext* context) {
  const float* x = NULL;
  float* y = NULL;
  size_t n = 0;
  OrtStatus* status = input_and_output(context, 0, &x, &y, &n);
  api->ReleaseStatus(status);
  for (size_t i = 0; !status && i < n; ++i) y[i] = ((Scale*)kernel)->factor * x[i];
}
static const OrtCustomOp scale = {.version = 1,
                                  .CreateKernel = scale_create,
                                  .GetName = scale_name,
                                  .GetExecutionProviderType = on_cpu,
                                  .GetInputType = of_float,
                                  .GetInputTypeCount = one,
                                  .GetOutputType = of_float,
                                  .GetOutputTypeCount = one,
                                  .KernelCompute = scale_compute,
                                  .KernelDestroy = free_kernel};

/* --- what the operators of later forms share */

static OrtStatus* no_kernel(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info, void** kernel) {
  (void)op, (void)given, (void)info;
  *kernel = NULL;
  return NULL;
}

/* One required float in, one out; each operator changes what differs. */
static const OrtCustomOp modern = {.version = 17,
                                   .GetExecutionProviderType = on_cpu,
                                   .GetInputType = of_float,
                                   .GetInputTypeCount = one,
                                   .GetOutputType = of_float,
                                   .GetOutputTypeCount = one,
                                   .KernelDestroy = free_kernel,
                                   .GetInputCharacteristic = required,
                                   .GetOutputCharacteristic = required,
                                   .GetInputMemoryType = default_memory,
                                   .GetVariadicInputMinArity = at_least_two,
                                   .GetVariadicInputHomogeneity = yes,
                                   .GetVariadicOutputMinArity = at_least_two,
                                   .GetVariadicOutputHomogeneity = yes,
                                   .CreateKernelV2 = no_kernel,
                                   .GetStartVersion = any_version,
                                   .GetEndVersion = last_version};

/* --- SumAll: y = x + every further input (at least two), of any shape with as many elements */

static const char* sum_name(const OrtCustomOp* op) {
  (void)op;
  return "SumAll";
}
static OrtStatus* sum_compute(void* kernel, OrtKernelContext* context) {
  const float *x = NULL, *more = NULL;
  float* y = NULL;
  size_t n = 0, inputs = 0, m = 0;
  (void)kernel;
  TRY(input_and_output(context, 0, &x, &y, &n));
  memcpy(y, x, n * sizeof *y);
  TRY(api->KernelContext_GetInputCount(context, &inputs));
  for (size_t k = 1; k < inputs; ++k) {
    const OrtValue* in = NULL;
    TRY(api->KernelContext_GetInput(context, k, &in));
    TRY(count_of(in, &m));
    if (m != n) return fail("the inputs have different numbers of elements");
    TRY(api->GetTensorMutableData((OrtValue*)in, (void**)&more));
    for (size_t i = 0; i < n; ++i) y[i] += more[i];
  }
  return NULL;
}
static OrtCustomOp sum_all(void) {
  OrtCustomOp op = modern;
  op.GetName = sum_name;
  op.GetInputTypeCount = two;
  op.GetInputCharacteristic = second_variadic;
  op.KernelComputeV2 = sum_compute;
  return op;
}

/* --- Shift: y = x + by, or + 1 without it; sign (optional) = which of x are negative, as 0 and 1 */

static const char* shift_name(const OrtCustomOp* op) {
  (void)op;
  return "Shift";
}
static ONNXTensorElementDataType shift_type(const OrtCustomOp* op, size_t index) {
  (void)op;
  return index == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}
static OrtStatus* shift_compute(void* kernel, OrtKernelContext* context) {
  const float* x = NULL;
  float *y = NULL, *by = NULL;
  int64_t *sign = NULL, dims[8];
  size_t n = 0, rank = 0;
  const OrtValue *in = NULL, *second = NULL;
  OrtValue* out = NULL;
  (void)kernel;
  TRY(input_and_output(context, 0, &x, &y, &n));
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(api->KernelContext_GetInput(context, 1, &second));
  if (second) TRY(api->GetTensorMutableData((OrtValue*)second, (void**)&by));
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + (by ? by[0] : 1);
  TRY(dims_of(in, dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 1, dims, rank, &out));
  if (!out) return NULL;
  TRY(api->GetTensorMutableData(out, (void**)&sign));
  for (size_t i = 0; i < n; ++i) sign[i] = x[i] < 0;
  return NULL;
}
static OrtCustomOp shift(void) {
  OrtCustomOp op = modern;
  op.GetName = shift_name;
  op.GetInputTypeCount = two;
  op.GetInputCharacteristic = second_optional;
  op.GetOutputTypeCount = two;
  op.GetOutputType = shift_type;
  op.GetOutputCharacteristic = second_optional;
  op.KernelComputeV2 = shift_compute;
  return op;
}

/* --- Repeat: y[n, times * m] = each row of x[n, m], `times` times over; tells its shape beforehand */

static const char* repeat_name(const OrtCustomOp* op) {
  (void)op;
  return "Repeat";
}
static OrtStatus* repeat_create(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info, void** kernel) {
  int64_t times = 0;
  (void)op;
  TRY(given->KernelInfoGetAttribute_int64(info, "times", &times));
  if (times < 1) return given->CreateStatus(ORT_INVALID_ARGUMENT, "times must be at least 1");
  *kernel = malloc(sizeof times);
  memcpy(*kernel, &times, sizeof times);
  return NULL;
}
static OrtStatus* repeat_compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  float *x = NULL, *y = NULL;
  int64_t dims[8], times = *(int64_t*)kernel;
  size_t rank = 0;
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(dims_of(in, dims, &rank));
  if (rank != 2) return fail("Repeat wants rows");
  const int64_t n = dims[0], m = dims[1];
  dims[1] = times * m;
  TRY(api->KernelContext_GetOutput(context, 0, dims, 2, &out));
  TRY(api->GetTensorMutableData((OrtValue*)in, (void**)&x));
  TRY(api->GetTensorMutableData(out, (void**)&y));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t t = 0; t < times; ++t) memcpy(y + (r * times + t) * m, x + r * m, (size_t)m * sizeof *y);
  return NULL;
}
static OrtStatus* repeat_infer(const OrtCustomOp* op, OrtShapeInferContext* context) {
  OrtTensorTypeAndShapeInfo *in = NULL, *out = NULL;
  const OrtOpAttr* attribute = NULL;
  int64_t times = 0, dims[2];
  size_t rank = 0, size = 0;
  const char* names[2] = {"", ""};
  (void)op;
  TRY(api->ShapeInferContext_GetAttribute(context, "times", &attribute));
  TRY(api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &times, sizeof times, &size));
  TRY(api->ShapeInferContext_GetInputTypeShape(context, 0, &in));
  TRY(api->GetDimensionsCount(in, &rank));
  if (rank != 2) return fail("Repeat wants rows");
  TRY(api->GetDimensions(in, dims, 2));
  TRY(api->GetSymbolicDimensions(in, names, 2));
  if (dims[1] >= 0) dims[1] *= times;
  names[1] = "";
  TRY(api->CreateTensorTypeAndShapeInfo(&out));
  OrtStatus* status = api->SetTensorElementType(out, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  if (!status) status = api->SetDimensions(out, dims, 2);
  if (!status) status = api->SetSymbolicDimensions(out, names, 2);
  if (!status) status = api->ShapeInferContext_SetOutputTypeShape(context, 0, out);
  api->ReleaseTensorTypeAndShapeInfo(out);
  return status;
}
static OrtCustomOp repeat(void) {
  OrtCustomOp op = modern;
  op.GetName = repeat_name;
  op.CreateKernelV2 = repeat_create;
  op.KernelComputeV2 = repeat_compute;
  op.InferOutputShapeFn = repeat_infer;
  return op;
}

/* --- Join: y[0] = the strings of x, one after the other */

static const char* join_name(const OrtCustomOp* op) {
  (void)op;
  return "Join";
}
static OrtStatus* join_compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  size_t length = 0, n = 0, offsets[64];
  const int64_t dims[1] = {1};
  char* text = NULL;
  (void)kernel;
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(count_of(in, &n));
  if (n > 64) return fail("too many strings");
  TRY(api->GetStringTensorDataLength(in, &length));
  text = calloc(length + 1, 1);
  OrtStatus* status = api->GetStringTensorContent(in, text, length, offsets, n);
  if (!status) status = api->KernelContext_GetOutput(context, 0, dims, 1, &out);
  if (!status) status = api->FillStringTensorElement(out, text, 0);
  free(text);
  return status;
}
static OrtCustomOp join(void) {
  OrtCustomOp op = modern;
  op.GetName = join_name;
  op.GetInputType = of_string;
  op.GetOutputType = of_string;
  op.KernelComputeV2 = join_compute;
  return op;
}

/* --- Same: y = x, of any type */

static const char* same_name(const OrtCustomOp* op) {
  (void)op;
  return "Same";
}
static OrtStatus* same_compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  void *x = NULL, *y = NULL;
  int64_t dims[8];
  size_t rank = 0, n = 0;
  OrtTensorTypeAndShapeInfo* info = NULL;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  (void)kernel;
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(dims_of(in, dims, &rank));
  TRY(count_of(in, &n));
  TRY(api->GetTensorTypeAndShape(in, &info));
  OrtStatus* status = api->GetTensorElementType(info, &type);
  api->ReleaseTensorTypeAndShapeInfo(info);
  if (status) return status;
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &out));
  TRY(api->GetTensorMutableData((OrtValue*)in, &x));
  TRY(api->GetTensorMutableData(out, &y));
  memcpy(y, x, n * (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4));
  return NULL;
}
static OrtStatus* same_infer(const OrtCustomOp* op, OrtShapeInferContext* context) {
  OrtTensorTypeAndShapeInfo* in = NULL;
  (void)op;
  TRY(api->ShapeInferContext_GetInputTypeShape(context, 0, &in));
  return api->ShapeInferContext_SetOutputTypeShape(context, 0, in);
}
static OrtCustomOp same(void) {
  OrtCustomOp op = modern;
  op.GetName = same_name;
  op.GetInputType = of_any;
  op.GetOutputType = of_any;
  op.KernelComputeV2 = same_compute;
  op.InferOutputShapeFn = same_infer;
  return op;
}

/* --- Fail: refuses to be made (mode 1), to run (mode 2), or gives no output (mode 3) */

static const char* fail_name(const OrtCustomOp* op) {
  (void)op;
  return "Fail";
}
static OrtStatus* fail_create(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info, void** kernel) {
  int64_t mode = 0;
  (void)op;
  TRY(given->KernelInfoGetAttribute_int64(info, "mode", &mode));
  if (mode == 1) return given->CreateStatus(ORT_NOT_IMPLEMENTED, "no kernel today");
  *kernel = malloc(sizeof mode);
  memcpy(*kernel, &mode, sizeof mode);
  return NULL;
}
static OrtStatus* fail_compute(void* kernel, OrtKernelContext* context) {
  (void)context;
  return *(int64_t*)kernel == 2 ? api->CreateStatus(ORT_ENGINE_ERROR, "no results today") : NULL;
}
static OrtCustomOp failing(void) {
  OrtCustomOp op = modern;
  op.GetName = fail_name;
  op.CreateKernelV2 = fail_create;
  op.KernelComputeV2 = fail_compute;
  return op;
}

/* --- Invoke: y = x + x, by calling Add */

typedef struct Invoke {
  OrtOp* add;
} Invoke;

static const char* invoke_name(const OrtCustomOp* op) {
  (void)op;
  return "Invoke";
}
static OrtStatus* invoke_create(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info, void** kernel) {
  const char* names[1] = {"T"};
  const ONNXTensorElementDataType types[1] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
  Invoke* made = calloc(1, sizeof *made);
  (void)op;
  *kernel = made;
  return given->CreateOp(info, "Add", "", 14, names, types, 1, NULL, 0, 2, 1, &made->add);
}
static void invoke_destroy(void* kernel) {
  api->ReleaseOp(((Invoke*)kernel)->add);
  free(kernel);
}
static OrtStatus* invoke_compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  int64_t dims[8];
  size_t rank = 0;
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(dims_of(in, dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &out));
  const OrtValue* inputs[2] = {in, in};
  OrtValue* outputs[1] = {out};
  return api->InvokeOp(context, ((Invoke*)kernel)->add, inputs, 2, outputs, 1);
}
static OrtCustomOp invoke(void) {
  OrtCustomOp op = modern;
  op.GetName = invoke_name;
  op.CreateKernelV2 = invoke_create;
  op.KernelComputeV2 = invoke_compute;
  op.KernelDestroy = invoke_destroy;
  return op;
}

/* --- Report: y = one string that says what the node knows of itself */

static const char* report_name(const OrtCustomOp* op) {
  (void)op;
  return "Report";
}

typedef struct Text {
  char data[2000];
  size_t size;
} Text;

static void put(Text* text, const char* label, const char* value) {
  text->size += (size_t)snprintf(text->data + text->size, sizeof text->data - text->size, "%s=%s;", label, value);
}
static void put_number(Text* text, const char* label, double value) {
  char digits[40];
  snprintf(digits, sizeof digits, "%g", value);
  put(text, label, digits);
}

static OrtStatus* report_attributes(const OrtKernelInfo* info, Text* text) {
  float f = 0, floats[8];
  int64_t i = 0, ints[8];
  char s[100];
  size_t size = 0;
  OrtStatus* missing = NULL;
  OrtValue* tensor = NULL;
  OrtAllocator* allocator = NULL;
  float* elements = NULL;
  TRY(api->KernelInfoGetAttribute_float(info, "f", &f));
  TRY(api->KernelInfoGetAttribute_int64(info, "i", &i));
  TRY(api->KernelInfoGetAttribute_string(info, "s", NULL, &size));
  put_number(text, "string size", (double)size);
  TRY(api->KernelInfoGetAttribute_string(info, "s", s, &size));
  put_number(text, "f", f);
  put_number(text, "i", (double)i);
  put(text, "s", s);
  TRY(api->KernelInfoGetAttributeArray_float(info, "floats", NULL, &size));
  put_number(text, "float count", (double)size);
  TRY(api->KernelInfoGetAttributeArray_float(info, "floats", floats, &size));
  put_number(text, "last float", floats[size - 1]);
  TRY(api->KernelInfoGetAttributeArray_int64(info, "ints", NULL, &size));
  TRY(api->KernelInfoGetAttributeArray_int64(info, "ints", ints, &size));
  put_number(text, "last int", (double)ints[size - 1]);
  TRY(api->GetAllocatorWithDefaultOptions(&allocator));
  TRY(api->KernelInfoGetAttribute_tensor(info, "t", allocator, &tensor));
  OrtStatus* status = api->GetTensorMutableData(tensor, (void**)&elements);
  if (!status) put_number(text, "t", elements[1]);
  api->ReleaseValue(tensor);
  if (status) return status;
  missing = api->KernelInfoGetAttribute_int64(info, "absent", &i);
  put_number(text, "missing", api->GetErrorCode(missing));
  api->ReleaseStatus(missing);
  return NULL;
}

static OrtStatus* report_arguments(const OrtKernelInfo* info, Text* text) {
  size_t inputs = 0, outputs = 0, size = 100;
  char name[100];
  int constant = 0;
  const OrtValue* value = NULL;
  float* elements = NULL;
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  int64_t dims[8];
  TRY(api->KernelInfo_GetInputCount(info, &inputs));
  TRY(api->KernelInfo_GetOutputCount(info, &outputs));
  put_number(text, "inputs", (double)inputs);
  put_number(text, "outputs", (double)outputs);
  TRY(api->KernelInfo_GetInputName(info, 0, name, &size));
  put(text, "first", name);
  size = sizeof name;
  TRY(api->KernelInfo_GetNodeName(info, name, &size));
  put(text, "node", name);
  TRY(api->KernelInfo_GetInputTypeInfo(info, 0, &type));
  OrtStatus* status = api->CastTypeInfoToTensorInfo(type, &tensor);
  if (!status) status = api->GetDimensionsCount(tensor, &size);
  if (!status) status = api->GetDimensions(tensor, dims, size);
  if (!status) put_number(text, "last size", (double)dims[size - 1]);
  api->ReleaseTypeInfo(type);
  if (status) return status;
  TRY(api->KernelInfoGetConstantInput_tensor(info, 0, &constant, &value));
  put_number(text, "first constant", constant);
  TRY(api->KernelInfoGetConstantInput_tensor(info, 1, &constant, &value));
  put_number(text, "second constant", constant);
  if (!constant) return NULL;
  TRY(api->GetTensorMutableData((OrtValue*)value, (void**)&elements));
  put_number(text, "constant", elements[0]);
  return NULL;
}

static OrtStatus* report_op_attr(Text* text) {
  OrtOpAttr* attribute = NULL;
  const int64_t ints[3] = {7, 8, 9};
  int64_t back[3];
  char name[16];
  size_t size = 0;
  TRY(api->CreateOpAttr("ints", ints, 3, ORT_OP_ATTR_INTS, &attribute));
  OrtStatus* status = api->ReadOpAttr(attribute, ORT_OP_ATTR_INTS, back, sizeof back, &size);
  api->ReleaseOpAttr(attribute);
  if (status) return status;
  put_number(text, "read ints", (double)size);
  put_number(text, "last read", (double)back[2]);
  TRY(api->CreateOpAttr("s", "hello", 5, ORT_OP_ATTR_STRING, &attribute));
  status = api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, NULL, 0, &size);
  put_number(text, "asked", api->GetErrorCode(status));
  put_number(text, "size", (double)size);
  api->ReleaseStatus(status);
  memset(name, '!', sizeof name);
  status = api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, name, sizeof name, &size);
  put_number(text, "read", api->GetErrorCode(status));
  put_number(text, "behind", name[5]);
  put_number(text, "size", (double)size);
  api->ReleaseStatus(status);
  status = api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, back, sizeof back, &size);
  put_number(text, "wrong type", api->GetErrorCode(status));
  api->ReleaseStatus(status);
  api->ReleaseOpAttr(attribute);
  const char* texts[2] = {"ab", "cde"};
  TRY(api->CreateOpAttr("strings", texts, 2, ORT_OP_ATTR_STRINGS, &attribute));
  memset(name, '!', sizeof name);
  status = api->ReadOpAttr(attribute, ORT_OP_ATTR_STRINGS, name, sizeof name, &size);
  put_number(text, "strings", api->GetErrorCode(status));
  put_number(text, "size", (double)size);
  put_number(text, "between", name[2]);
  api->ReleaseStatus(status);
  api->ReleaseOpAttr(attribute);
  return NULL;
}

/* The text is asked of a copy of the info, as some operators keep one. */
static OrtStatus* report_create(const OrtCustomOp* op, const OrtApi* given, const OrtKernelInfo* info, void** kernel) {
  OrtKernelInfo* copy = NULL;
  Text* text = calloc(1, sizeof *text);
  (void)op, (void)given;
  *kernel = text;
  TRY(api->CopyKernelInfo(info, &copy));
  OrtStatus* status = report_attributes(copy, text);
  if (!status) status = report_arguments(copy, text);
  if (!status) status = report_op_attr(text);
  api->ReleaseKernelInfo(copy);
  return status;
}

static void square(void* data, size_t index) { ((int64_t*)data)[index] = (int64_t)(index * index); }

static OrtStatus* report_compute(void* kernel, OrtKernelContext* context) {
  Text text = *(Text*)kernel;
  OrtValue* out = NULL;
  OrtMemoryInfo* memory = NULL;
  OrtAllocator* allocator = NULL;
  void *stream = NULL, *scratch = NULL;
  const OrtLogger* logger = NULL;
  const int64_t dims[1] = {1};
  int64_t squares[1000];
  TRY(api->KernelContext_ParallelFor(context, square, 1000, 0, squares));
  put_number(&text, "square", (double)squares[999]);
  TRY(api->KernelContext_GetGPUComputeStream(context, &stream));
  put_number(&text, "stream", stream != NULL);
  TRY(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  OrtStatus* status = api->KernelContext_GetAllocator(context, memory, &allocator);
  if (!status) put_number(&text, "allocator", allocator != NULL);
  if (!status) status = api->KernelContext_GetScratchBuffer(context, memory, 100, &scratch);
  if (!status) memset(scratch, 0, 100);
  api->ReleaseMemoryInfo(memory);
  if (!status && allocator) api->ReleaseAllocator(allocator);
  if (status) return status;
  TRY(api->KernelContext_GetLogger(context, &logger));
  TRY(api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_VERBOSE, "reported", ORT_FILE, __LINE__, "report_compute"));
  TRY(api->KernelContext_GetOutput(context, 0, dims, 1, &out));
  return api->FillStringTensorElement(out, text.data, 0);
}
static OrtCustomOp report(void) {
  OrtCustomOp op = modern;
  op.GetName = report_name;
  op.GetInputTypeCount = two;
  op.GetOutputType = of_string;
  op.CreateKernelV2 = report_create;
  op.KernelComputeV2 = report_compute;
  return op;
}

/* --- Count, of two types: how many elements; a string says which one was taken */

static const char* count_name(const OrtCustomOp* op) {
  (void)op;
  return "Count";
}
static OrtStatus* count_compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* in = NULL;
  OrtValue* out = NULL;
  int64_t* y = NULL;
  size_t n = 0;
  (void)kernel;
  TRY(api->KernelContext_GetInput(context, 0, &in));
  TRY(count_of(in, &n));
  TRY(api->KernelContext_GetOutput(context, 0, NULL, 0, &out));
  TRY(api->GetTensorMutableData(out, (void**)&y));
  *y = (int64_t)n;
  return NULL;
}
static OrtStatus* count_negative(void* kernel, OrtKernelContext* context) {
  OrtValue* out = NULL;
  int64_t* y = NULL;
  TRY(count_compute(kernel, context));
  TRY(api->KernelContext_GetOutput(context, 0, NULL, 0, &out));
  TRY(api->GetTensorMutableData(out, (void**)&y));
  *y = -*y;
  return NULL;
}
static OrtCustomOp count_floats(void) {
  OrtCustomOp op = modern;
  op.GetName = count_name;
  op.GetOutputType = of_int64;
  op.KernelComputeV2 = count_compute;
  return op;
}
static OrtCustomOp count_ints(void) {
  OrtCustomOp op = modern;
  op.GetName = count_name;
  op.GetInputType = of_int64;
  op.GetOutputType = of_int64;
  op.KernelComputeV2 = count_negative;
  return op;
}

/* --- Since2: there from version 2 to 3 of the operator set */

static const char* since2_name(const OrtCustomOp* op) {
  (void)op;
  return "Since2";
}
static int version2(const OrtCustomOp* op) {
  (void)op;
  return 2;
}
static int version3(const OrtCustomOp* op) {
  (void)op;
  return 3;
}
static OrtCustomOp since2(void) {
  OrtCustomOp op = modern;
  op.GetName = since2_name;
  op.KernelComputeV2 = same_compute;
  op.GetStartVersion = version2;
  op.GetEndVersion = version3;
  return op;
}

static OrtCustomOpDomain* domain;

/* The domain lives as long as the library. */
__attribute__((destructor)) static void release_domain(void) {
  if (domain) api->ReleaseCustomOpDomain(domain);
}

ORT_EXPORT OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  static OrtCustomOp ops[12];
  api = base->GetApi(18);
  if (!api) return NULL;
  if (!domain) {
    const OrtCustomOp all[] = {scale,     sum_all(), shift(),  repeat(),       join(),       same(),
                               failing(), invoke(),  report(), count_floats(), count_ints(), since2()};
    memcpy(ops, all, sizeof ops);
    TRY(api->CreateCustomOpDomain("test.ops", &domain));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) TRY(api->CustomOpDomain_Add(domain, &ops[i]));
  }
  return api->AddCustomOpDomain(options, domain);
}

/* The same under a name that a program asks for. */
ORT_EXPORT OrtStatus* ORT_API_CALL RegisterTestOps(OrtSessionOptions* options, const OrtApiBase* base) {
  return RegisterCustomOps(options, base);
}
