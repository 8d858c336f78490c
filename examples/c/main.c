/* Runs the network of tests/models/demo on a blank image, in C.
     main MODEL      prints the scores of the ten digits
   The program also runs, unchanged, with ONNX Runtime's library. */
#include <stdio.h>
#include <tessera/c_api.h>

static const OrtApi* api;

/* Prints and releases an error; 1 if there was one. */
static int failed(OrtStatus* status) {
  if (!status) return 0;
  fprintf(stderr, "error %d: %s\n", (int)api->GetErrorCode(status), api->GetErrorMessage(status));
  api->ReleaseStatus(status);
  return 1;
}

static int print_scores(OrtValue* scores) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  size_t count = 0, i;
  void* data = NULL;
  int bad = failed(api->GetTensorTypeAndShape(scores, &info)) ||
            failed(api->GetTensorShapeElementCount(info, &count)) || failed(api->GetTensorMutableData(scores, &data));
  for (i = 0; !bad && i < count; ++i) printf("%zu: %.4f\n", i, ((const float*)data)[i]);
  api->ReleaseTensorTypeAndShapeInfo(info);
  return bad;
}

static int run(OrtSession* session, const char* input, const char* output) {
  static float image[8 * 8];
  const int64_t shape[] = {1, 1, 8, 8};
  OrtMemoryInfo* memory = NULL;
  OrtValue *x = NULL, *y = NULL;
  int bad = failed(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)) ||
            failed(api->CreateTensorWithDataAsOrtValue(memory, image, sizeof image, shape, 4,
                                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  if (!bad) {
    const OrtValue* inputs[] = {x};
    bad = failed(api->Run(session, NULL, &input, inputs, 1, &output, 1, &y)) || print_scores(y);
  }
  api->ReleaseValue(y);
  api->ReleaseValue(x);
  api->ReleaseMemoryInfo(memory);
  return bad;
}

int main(int argc, char** argv) {
  OrtEnv* env = NULL;
  OrtSession* session = NULL;
  OrtAllocator* allocator = NULL;
  char *input = NULL, *output = NULL;
  int bad;
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!api) return 1;
  bad = failed(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "example", &env)) ||
        failed(api->CreateSession(env, argv[1], NULL, &session)) ||
        failed(api->GetAllocatorWithDefaultOptions(&allocator)) ||
        failed(api->SessionGetInputName(session, 0, allocator, &input)) ||
        failed(api->SessionGetOutputName(session, 0, allocator, &output)) || run(session, input, output);
  if (input && failed(api->AllocatorFree(allocator, input))) bad = 1;
  if (output && failed(api->AllocatorFree(allocator, output))) bad = 1;
  api->ReleaseSession(session);
  api->ReleaseEnv(env);
  return bad;
}
