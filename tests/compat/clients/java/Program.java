// What a Java program does with onnxruntime: java Program FOLDER, where FOLDER is made by cases.py.
import ai.onnxruntime.*;
import java.nio.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

public class Program {
  interface Work { String run() throws Exception; }

  record Value(String name, String type, long[] dims, String data) {}
  record Case(String name, String model, List<Value> inputs, List<Value> outputs) {}

  static Path folder;
  static OrtEnvironment env;
  static int passed = 0, failed = 0;

  static void check(String name, Work work) {
    String wrong;
    try {
      wrong = work.run();
    } catch (Throwable error) {
      wrong = error.toString();
    }
    if (wrong.isEmpty()) {
      ++passed;
      System.out.println("ok " + name);
    } else {
      ++failed;
      System.out.println("FAIL " + name + ": " + wrong);
    }
  }

  static String refused(Work work) throws Exception {
    try {
      work.run();
    } catch (OrtException error) {
      return error.getMessage() == null || error.getMessage().isEmpty() ? "an error without a message" : "";
    }
    return "nothing was refused";
  }

  static String file(String name) { return folder.resolve(name).toString(); }

  static List<Case> cases() throws Exception {
    List<Case> out = new ArrayList<>();
    for (String line : Files.readAllLines(folder.resolve("cases.txt"))) {
      String[] words = line.split(" ");
      if (words[0].equals("model")) {
        out.add(new Case(words[1], words[2], new ArrayList<>(), new ArrayList<>()));
        continue;
      }
      long[] dims = words[3].equals("-") ? new long[0] : Arrays.stream(words[3].split(",")).mapToLong(Long::parseLong).toArray();
      Case last = out.get(out.size() - 1);
      (words[0].equals("input") ? last.inputs : last.outputs).add(new Value(words[1], words[2], dims, words[4]));
    }
    return out;
  }

  static ByteBuffer bytes(Value v) throws Exception {
    byte[] data = Files.readAllBytes(folder.resolve(v.data));
    ByteBuffer buffer = ByteBuffer.allocateDirect(data.length).order(ByteOrder.nativeOrder());
    buffer.put(data).rewind();
    return buffer;
  }

  static OnnxJavaType type(String name) {
    switch (name) {
      case "float32": return OnnxJavaType.FLOAT;
      case "float64": return OnnxJavaType.DOUBLE;
      case "int64": return OnnxJavaType.INT64;
      case "bool": return OnnxJavaType.BOOL;
      case "uint8": return OnnxJavaType.UINT8;
      default: return OnnxJavaType.FLOAT16;
    }
  }

  static OnnxTensor tensor(Value v) throws Exception { return OnnxTensor.createTensor(env, bytes(v), v.dims, type(v.type)); }

  static Map<String, OnnxTensor> feeds(Case c) throws Exception {
    Map<String, OnnxTensor> out = new LinkedHashMap<>();
    for (Value v : c.inputs) out.put(v.name, tensor(v));
    return out;
  }

  static double element(ByteBuffer buffer, String type, int i) {
    switch (type) {
      case "float32": return buffer.getFloat(4 * i);
      case "float64": return buffer.getDouble(8 * i);
      case "int64": return buffer.getLong(8 * i);
      case "float16": return buffer.getShort(2 * i);
      default: return buffer.get(i);
    }
  }

  static String difference(OnnxTensor got, Value wanted) throws Exception {
    if (got.getInfo().type != type(wanted.type)) return "type " + got.getInfo().type;
    if (!Arrays.equals(got.getInfo().getShape(), wanted.dims)) return "shape " + Arrays.toString(got.getInfo().getShape());
    if (got.getInfo().getNumElements() == 0) return "";
    ByteBuffer a = got.getByteBuffer().order(ByteOrder.nativeOrder()), b = bytes(wanted);
    int count = (int) got.getInfo().getNumElements();
    double largest = 0;
    for (int i = 0; i < count; ++i) largest = Math.max(largest, Math.abs(element(b, wanted.type, i)));
    for (int i = 0; i < count; ++i)
      if (!(Math.abs(element(a, wanted.type, i) - element(b, wanted.type, i)) <= 1e-4 * largest))
        return "element " + i + " is " + element(a, wanted.type, i) + " instead of " + element(b, wanted.type, i);
    return "";
  }

  static String same(OrtSession session, Case c) throws Exception {
    try (OrtSession.Result result = session.run(feeds(c))) {
      for (Value v : c.outputs) {
        String wrong = difference((OnnxTensor) result.get(v.name).get(), v);
        if (!wrong.isEmpty()) return v.name + ": " + wrong;
      }
    }
    return "";
  }

  public static void main(String[] arguments) throws Exception {
    folder = Paths.get(arguments[0]);
    env = OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL);
    List<Case> all = cases();
    Case add = all.stream().filter(c -> c.name.equals("add")).findFirst().get();
    for (Case c : all) {
      check("run " + c.name, () -> { try (OrtSession s = env.createSession(file(c.model))) { return same(s, c); } });
      check("run " + c.name + " from memory", () -> {
        try (OrtSession s = env.createSession(Files.readAllBytes(folder.resolve(c.model)))) { return same(s, c); }
      });
    }
    OrtSession session = env.createSession(file("add.onnx"));
    check("names", () -> session.getInputNames().equals(new LinkedHashSet<>(List.of("x", "w"))) ? "" : "" + session.getInputNames());
    check("type information", () -> {
      TensorInfo x = (TensorInfo) session.getInputInfo().get("x").getInfo();
      return x.type == OnnxJavaType.FLOAT && Arrays.equals(x.getShape(), new long[] {-1, 3}) ? "" : x.toString();
    });
    check("metadata", () -> {
      OnnxModelMetadata m = session.getMetadata();
      return m.getProducerName().equals("tessera") && m.getGraphName().equals("add") && m.getCustomMetadataValue("colour").get().equals("green") ? "" : m.toString();
    });
    check("one of three outputs", () -> {
      try (OrtSession three = env.createSession(file("three.onnx")); OnnxTensor x = OnnxTensor.createTensor(env, new float[] {-1, 2});
           OrtSession.Result r = three.run(Map.of("x", x), Set.of("b"))) {
        return r.size() == 1 && ((float[]) r.get(0).getValue())[0] == 1 ? "" : "" + r.size();
      }
    });
    check("strings", () -> {
      String[] text = {"a", "grüße", ""};
      try (OrtSession strings = env.createSession(file("strings.onnx")); OnnxTensor x = OnnxTensor.createTensor(env, text);
           OrtSession.Result r = strings.run(Map.of("x", x))) {
        return Arrays.equals((String[]) r.get(0).getValue(), text) ? "" : Arrays.toString((String[]) r.get(0).getValue());
      }
    });
    check("a sequence", () -> {
      try (OrtSession sequence = env.createSession(file("sequence.onnx")); OnnxTensor x = OnnxTensor.createTensor(env, new float[] {3, 4});
           OrtSession.Result r = sequence.run(Map.of("x", x))) {
        List<? extends OnnxValue> list = ((OnnxSequence) r.get(0)).getValue();
        return list.size() == 2 && ((float[]) list.get(1).getValue())[1] == 4 ? "" : "" + list.size();
      }
    });
    check("maps", () -> {
      try (OrtSession zipmap = env.createSession(file("zipmap.onnx")); OnnxTensor x = OnnxTensor.createTensor(env, new float[][] {{1, 2, 3}, {4, 5, 6}});
           OrtSession.Result r = zipmap.run(Map.of("x", x))) {
        List<? extends OnnxValue> list = ((OnnxSequence) r.get(0)).getValue();
        Map<?, ?> last = ((OnnxMap) list.get(1)).getValue();
        return list.size() == 2 && last.get(20L).equals(5f) ? "" : last.toString();
      }
    });
    check("options", () -> {
      try (OrtSession.SessionOptions o = new OrtSession.SessionOptions()) {
        o.setIntraOpNumThreads(1);
        o.setInterOpNumThreads(1);
        o.setOptimizationLevel(OrtSession.SessionOptions.OptLevel.BASIC_OPT);
        o.setExecutionMode(OrtSession.SessionOptions.ExecutionMode.SEQUENTIAL);
        o.setCPUArenaAllocator(false);
        o.setMemoryPatternOptimization(false);
        o.setLoggerId("log");
        o.addConfigEntry("session.intra_op.allow_spinning", "0");
        try (OrtSession s = env.createSession(file("add.onnx"), o)) { return same(s, add); }
      }
    });
    check("run options", () -> {
      try (OrtSession.RunOptions o = new OrtSession.RunOptions()) {
        o.setRunTag("run");
        o.setTerminate(true);
        String stopped = refused(() -> { session.run(feeds(add), session.getOutputNames(), o).close(); return ""; });
        if (!stopped.isEmpty()) return stopped;
        o.setTerminate(false);
        try (OrtSession.Result r = session.run(feeds(add), session.getOutputNames(), o)) { return difference((OnnxTensor) r.get(0), add.outputs.get(0)); }
      }
    });
    check("an output given beforehand", () -> {
      OnnxTensor y = OnnxTensor.createTensor(env, ByteBuffer.allocateDirect(24).order(ByteOrder.nativeOrder()), new long[] {2, 3}, OnnxJavaType.FLOAT);
      session.run(feeds(add), Map.of("y", y)).close();
      return difference(y, add.outputs.get(0));
    });
    check("an initializer from outside", () -> {
      try (OrtSession.SessionOptions o = new OrtSession.SessionOptions()) { o.addInitializer("unused", OnnxTensor.createTensor(env, new float[] {1})); }
      return "";
    });
    check("runs at once", () -> {
      ExecutorService pool = Executors.newFixedThreadPool(8);
      List<Future<String>> results = new ArrayList<>();
      for (int i = 0; i < 32; ++i) results.add(pool.submit(() -> same(session, add)));
      String wrong = "";
      for (Future<String> r : results) wrong += r.get();
      pool.shutdown();
      return wrong;
    });
    check("profiling", () -> {
      try (OrtSession.SessionOptions o = new OrtSession.SessionOptions()) {
        o.enableProfiling(file("java_profile"));
        try (OrtSession s = env.createSession(file("add.onnx"), o)) {
          same(s, add);
          String path = s.endProfiling();
          return Files.size(Paths.get(path)) > 0 ? "" : path;
        }
      }
    });
    check("providers", () -> OrtEnvironment.getAvailableProviders().contains(OrtProvider.CPU) ? "" : "" + OrtEnvironment.getAvailableProviders());
    check("a file that is not there is refused", () -> refused(() -> { env.createSession(file("nowhere.onnx")); return ""; }));
    check("a file that is no model is refused", () -> refused(() -> { env.createSession(file("bad.onnx")); return ""; }));
    check("bytes that are no model are refused", () -> refused(() -> { env.createSession(new byte[] {1, 2, 3}); return ""; }));
    check("a wrong type is refused", () -> refused(() -> {
      Map<String, OnnxTensor> wrong = feeds(add);
      wrong.put("x", OnnxTensor.createTensor(env, new long[][] {{1, 2, 3}}));
      session.run(wrong);
      return "";
    }));
    check("a wrong shape is refused", () -> refused(() -> {
      Map<String, OnnxTensor> wrong = feeds(add);
      wrong.put("x", OnnxTensor.createTensor(env, new float[][] {{1, 2}}));
      session.run(wrong);
      return "";
    }));
    check("a missing input is refused", () -> refused(() -> { session.run(Map.of("x", feeds(add).get("x"))); return ""; }));
    check("an unknown input is refused", () -> refused(() -> { session.run(Map.of("nope", feeds(add).get("x"))); return ""; }));
    check("the session answers after refusals", () -> same(session, add));
    session.close();
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(0);
  }
}
