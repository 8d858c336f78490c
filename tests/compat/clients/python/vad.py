"""Voice activity by silero-vad's nets: state carried from window to window, three forms of the model."""
import numpy as np
import onnxruntime

from checks import Checks

RATE, WINDOW = 16000, 512


def sound(seconds=3):
    t, rng = np.arange(seconds * RATE) / RATE, np.random.default_rng(0)
    tone = sum(np.sin(2 * np.pi * k * (110 * t + 30 * t * t)) / k for k in range(1, 14))
    return (0.3 * tone * (np.sin(6 * t) > 0) + rng.normal(0, 0.01, len(t))).astype(np.float32)


def open_model(path):
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])


def probabilities(session):
    state, context, out = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    samples = sound()
    for at in range(0, len(samples) - WINDOW + 1, WINDOW):
        window = np.concatenate([context, samples[None, at : at + WINDOW]], axis=1)
        values = {"input": window, "state": state, "sr": np.array(RATE, np.int64)}
        probability, state = session.run(None, {v.name: values[v.name] for v in session.get_inputs()})
        context = window[:, -64:]
        out.append(float(probability[0, 0]))
    return out


checks = Checks()
for name in ("silero_vad", "silero_vad_16k_op15", "silero_vad_half"):
    path = checks.models / "silero_vad" / f"{name}.onnx"
    checks.check(name, lambda: checks.answer(name, probabilities(open_model(path)), 1e-4))
checks.end()
