// A program in C: describes and runs the model it is given, and prints what it sees. The output must not depend on
// which library of this ABI it runs with, nor on whose header it was compiled with.
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>

static const OrtApi* c;

static void check(OrtStatus* status) {
  if (!status) return;
  fprintf(stderr, "%d: %s\n", (int)c->GetErrorCode(status), c->GetErrorMessage(status));
  exit(1);
}

static void print_code(const char* what, OrtStatus* status) {
  printf("%s: %d\n", what, status ? (int)c->GetErrorCode(status) : 0);
  if (status) c->ReleaseStatus(status);
}

static void print_type(const OrtTypeInfo* type) {
  const OrtTensorTypeAndShapeInfo* info = NULL;
  enum ONNXTensorElementDataType element;
  size_t rank = 0;
  int64_t dims[8];
  const char* names[8];
  check(c->CastTypeInfoToTensorInfo(type, &info));
  check(c->GetTensorElementType(info, &element));
  check(c->GetDimensionsCount(info, &rank));
  check(c->GetDimensions(info, dims, rank));
  check(c->GetSymbolicDimensions(info, names, rank));
  printf(" type %d [", (int)element);
  for (size_t i = 0; i < rank; ++i) printf(" %lld%s", (long long)dims[i], names[i]);
  printf(" ]\n");
}

static void describe(OrtSession* session, OrtAllocator* allocator) {
  size_t count = 0;
  check(c->SessionGetInputCount(session, &count));
  for (size_t i = 0; i < count; ++i) {
    char* name = NULL;
    OrtTypeInfo* type = NULL;
    check(c->SessionGetInputName(session, i, allocator, &name));
    check(c->SessionGetInputTypeInfo(session, i, &type));
    printf("input %s", name);
    print_type(type);
    c->ReleaseTypeInfo(type);
    check(c->AllocatorFree(allocator, name));
  }
  OrtModelMetadata* metadata = NULL;
  char* text = NULL;
  int64_t version = 0;
  check(c->SessionGetModelMetadata(session, &metadata));
  check(c->ModelMetadataGetProducerName(metadata, allocator, &text));
  check(c->ModelMetadataGetVersion(metadata, &version));
  printf("by %s, version %lld\n", text, (long long)version);
  check(c->AllocatorFree(allocator, text));
  c->ReleaseModelMetadata(metadata);
}

static void run(OrtSession* session) {
  float data[] = {1, -2, 3, -4, 5, -6};
  const int64_t shape[] = {2, 3};
  const char *input = "x", *output = "y", *nobody = "nobody";
  OrtMemoryInfo* memory = NULL;
  OrtValue *x = NULL, *y = NULL;
  float* result = NULL;
  check(c->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(
      c->CreateTensorWithDataAsOrtValue(memory, data, sizeof data, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  check(c->Run(session, NULL, &input, (const OrtValue* const*)&x, 1, &output, 1, &y));
  check(c->GetTensorMutableData(y, (void**)&result));
  for (int i = 0; i < 6; ++i) printf("%g ", result[i]);
  printf("\n");
  c->ReleaseValue(y);
  y = NULL;
  print_code("unknown output", c->Run(session, NULL, &input, (const OrtValue* const*)&x, 1, &nobody, 1, &y));
  print_code("unknown input", c->Run(session, NULL, &nobody, (const OrtValue* const*)&x, 1, &output, 1, &y));
  c->ReleaseValue(x);
  c->ReleaseMemoryInfo(memory);
}

int main(int count, char** arguments) {
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtAllocator* allocator = NULL;
  if (count < 2) return 2;
  c = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!c) return 3;
  check(c->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "client", &env));
  check(c->CreateSessionOptions(&options));
  check(c->SetIntraOpNumThreads(options, 1));
  check(c->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
  check(c->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
  check(c->CreateSession(env, arguments[1], options, &session));
  check(c->GetAllocatorWithDefaultOptions(&allocator));
  describe(session, allocator);
  run(session);
  c->ReleaseSession(session);
  session = NULL;
  print_code("no such file", c->CreateSession(env, "nowhere.onnx", options, &session));
  print_code("no model", c->CreateSessionFromArray(env, "abc", 3, options, &session));
  c->ReleaseSessionOptions(options);
  c->ReleaseEnv(env);
  return 0;
}
