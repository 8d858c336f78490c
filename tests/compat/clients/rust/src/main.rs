//! What a Rust program does with the crate ort: program FOLDER, where FOLDER is made by cases.py.
use ort::editor::{Graph, Model, Node, Opset};
use ort::environment::Environment;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{OutputSelector, RunOptions, Session};
use ort::value::{DynValue, Outlet, Shape, SymbolicDimensions, Tensor, TensorElementType, ValueType};
use std::path::{Path, PathBuf};

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Data {
    name: String,
    kind: String,
    dims: Vec<i64>,
    bytes: Vec<u8>,
}

struct Case {
    name: String,
    model: PathBuf,
    inputs: Vec<Data>,
    outputs: Vec<Data>,
}

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn check(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        match work() {
            Ok(()) => {
                self.passed += 1;
                println!("ok {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL {name}: {error}");
            }
        }
    }
}

fn ensure(holds: bool, text: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(text.into().into()) }
}

fn refused<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Err("nothing was refused".into()),
        Err(error) => ensure(!error.to_string().is_empty(), "an error without a message"),
    }
}

fn read_cases(folder: &Path) -> std::io::Result<Vec<Case>> {
    let mut out: Vec<Case> = Vec::new();
    for line in std::fs::read_to_string(folder.join("cases.txt"))?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "model" {
            out.push(Case { name: words[1].into(), model: folder.join(words[2]), inputs: vec![], outputs: vec![] });
            continue;
        }
        let dims = if words[3] == "-" { vec![] } else { words[3].split(',').map(|d| d.parse().unwrap()).collect() };
        let data = Data { name: words[1].into(), kind: words[2].into(), dims, bytes: std::fs::read(folder.join(words[4]))? };
        let case = out.last_mut().unwrap();
        if words[0] == "input" { case.inputs.push(data) } else { case.outputs.push(data) }
    }
    Ok(out)
}

impl Data {
    fn floats(&self) -> Vec<f32> {
        self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn doubles(&self) -> Vec<f64> {
        self.bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn longs(&self) -> Vec<i64> {
        self.bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn halves(&self) -> Vec<half::f16> {
        self.bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn bools(&self) -> Vec<bool> {
        self.bytes.iter().map(|b| *b != 0).collect()
    }

    fn value(&self) -> ort::Result<DynValue> {
        let dims = self.dims.clone();
        Ok(match self.kind.as_str() {
            "float32" => Tensor::from_array((dims, self.floats()))?.into_dyn(),
            "float64" => Tensor::from_array((dims, self.doubles()))?.into_dyn(),
            "int64" => Tensor::from_array((dims, self.longs()))?.into_dyn(),
            "float16" => Tensor::from_array((dims, self.halves()))?.into_dyn(),
            "bool" => Tensor::from_array((dims, self.bools()))?.into_dyn(),
            _ => Tensor::from_array((dims, self.bytes.clone()))?.into_dyn(),
        })
    }

    fn compare(&self, got: &DynValue) -> Outcome {
        let numbers = |kind: &str| -> Result<(Vec<i64>, Vec<f64>, Vec<f64>), Box<dyn std::error::Error>> {
            Ok(match kind {
                "float32" => {
                    let (shape, data) = got.try_extract_tensor::<f32>()?;
                    (shape.to_vec(), data.iter().map(|x| *x as f64).collect(), self.floats().iter().map(|x| *x as f64).collect())
                }
                "float64" => {
                    let (shape, data) = got.try_extract_tensor::<f64>()?;
                    (shape.to_vec(), data.to_vec(), self.doubles())
                }
                "int64" => {
                    let (shape, data) = got.try_extract_tensor::<i64>()?;
                    (shape.to_vec(), data.iter().map(|x| *x as f64).collect(), self.longs().iter().map(|x| *x as f64).collect())
                }
                "float16" => {
                    let (shape, data) = got.try_extract_tensor::<half::f16>()?;
                    (shape.to_vec(), data.iter().map(|x| x.to_f64()).collect(), self.halves().iter().map(|x| x.to_f64()).collect())
                }
                "bool" => {
                    let (shape, data) = got.try_extract_tensor::<bool>()?;
                    (shape.to_vec(), data.iter().map(|x| *x as u8 as f64).collect(), self.bytes.iter().map(|x| *x as f64).collect())
                }
                _ => {
                    let (shape, data) = got.try_extract_tensor::<u8>()?;
                    (shape.to_vec(), data.iter().map(|x| *x as f64).collect(), self.bytes.iter().map(|x| *x as f64).collect())
                }
            })
        };
        let (shape, ours, wanted) = numbers(&self.kind)?;
        ensure(shape == self.dims, format!("shape {shape:?} instead of {:?}", self.dims))?;
        let largest = wanted.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        for (i, (a, b)) in ours.iter().zip(&wanted).enumerate() {
            ensure((a - b).abs() <= 1e-4 * largest, format!("{}: element {i} is {a} instead of {b}", self.name))?;
        }
        Ok(())
    }
}

impl Case {
    fn feeds(&self) -> ort::Result<Vec<(String, DynValue)>> {
        self.inputs.iter().map(|d| Ok((d.name.clone(), d.value()?))).collect()
    }
    fn same(&self, session: &mut Session) -> Outcome {
        let results = session.run(self.feeds()?)?;
        for d in &self.outputs {
            d.compare(results.get(&d.name).ok_or("an output is missing")?)?;
        }
        Ok(())
    }
}

fn editor_model() -> ort::Result<Model> {
    let kind = ValueType::Tensor {
        ty: TensorElementType::Float32,
        shape: Shape::new([2]),
        dimension_symbols: SymbolicDimensions::empty(1),
    };
    let mut graph = Graph::new()?;
    graph.set_inputs([Outlet::new("x", kind.clone())])?;
    graph.set_outputs([Outlet::new("y", kind)])?;
    graph.add_initializer("w", Tensor::from_array((vec![2i64], vec![10.0f32, 20.0]))?.clone(), false)?;
    graph.add_node(Node::new("Add", "", "sum", ["x", "w"], ["y"], [])?)?;
    let mut model = Model::new([Opset::new("", 17)?])?;
    model.set_graph(graph)?;
    Ok(model)
}

fn behaviours(tally: &mut Tally, env: &Environment, folder: &Path, add: &Case) -> Outcome {
    let open = |name: &str| Session::builder(env).unwrap().commit_from_file(folder.join(name));
    let mut session = open("add.onnx")?;
    tally.check("names", || {
        let names: Vec<&str> = session.inputs().iter().map(|i| i.name()).collect();
        ensure(names == ["x", "w"] && session.outputs()[0].name() == "y", format!("{names:?}"))
    });
    tally.check("type information", || {
        let kind = session.inputs()[0].dtype();
        ensure(kind.tensor_shape().map(|s| s.to_vec()) == Some(vec![-1, 3]), format!("{kind}"))
    });
    tally.check("metadata", || {
        let m = session.metadata()?;
        ensure(m.producer().as_deref() == Some("tessera") && m.custom("colour").as_deref() == Some("green"), "other metadata")
    });
    tally.check("one of three outputs", || {
        let mut three = open("three.onnx")?;
        let x = Tensor::from_array((vec![2i64], vec![-1.0f32, 2.0]))?;
        let options = RunOptions::new()?.with_outputs(OutputSelector::no_default().with("b"));
        let results = three.run_with_options(ort::inputs!["x" => x], &options)?;
        ensure(results.len() == 1 && results["b"].try_extract_tensor::<f32>()?.1[0] == 1.0, "another output")
    });
    tally.check("strings", || {
        let text = vec!["a".to_string(), "grüße".to_string(), String::new()];
        let x = Tensor::from_string_array((vec![3i64], text.as_slice()))?;
        let mut strings = open("strings.onnx")?;
        let results = strings.run(ort::inputs!["x" => x])?;
        ensure(results["y"].try_extract_strings()?.1 == text, "other strings")
    });
    tally.check("a sequence", || {
        let x = Tensor::from_array((vec![2i64], vec![3.0f32, 4.0]))?;
        let mut sequence = open("sequence.onnx")?;
        let results = sequence.run(ort::inputs!["x" => x])?;
        let list = results["y"].try_extract_sequence::<ort::value::TensorValueType<f32>>()?;
        ensure(list.len() == 2 && list[1].extract_tensor().1[1] == 4.0, "another sequence")
    });
    tally.check("maps", || {
        let x = Tensor::from_array((vec![2i64, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]))?;
        let mut zipmap = open("zipmap.onnx")?;
        let results = zipmap.run(ort::inputs!["x" => x])?;
        let list = results["y"].try_extract_sequence::<ort::value::DynMapValueType>()?;
        ensure(list[1].try_extract_map::<i64, f32>()?.get(&20) == Some(&5.0), "another map")
    });
    tally.check("options", || {
        let mut other = Session::builder(env)?
            .with_intra_threads(1)?
            .with_inter_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::Disable)?
            .with_memory_pattern(false)?
            .with_deterministic_compute(true)?
            .with_log_id("log")?
            .with_intra_op_spinning(false)?
            .with_dimension_override("N", 2)?
            .commit_from_file(&add.model)?;
        ensure(other.inputs()[0].dtype().tensor_shape().map(|s| s.to_vec()) == Some(vec![2, 3]), "N is not 2")?;
        add.same(&mut other)
    });
    tally.check("the optimised model", || {
        let path = folder.join("rust_optimised.onnx");
        Session::builder(env)?.with_optimized_model_path(&path)?.commit_from_file(&add.model)?;
        add.same(&mut Session::builder(env)?.commit_from_file(&path)?)
    });
    tally.check("terminated by run options", || {
        let options = RunOptions::new()?;
        options.terminate()?;
        refused(session.run_with_options(add.feeds()?, &options))?;
        options.unterminate()?;
        let results = session.run_with_options(add.feeds()?, &options)?;
        add.outputs[0].compare(&results["y"])
    });
    tally.check("binding", || {
        let mut binding = session.create_binding()?;
        for (name, value) in add.feeds()? {
            binding.bind_input(name, &value)?;
        }
        let info = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::Default)?;
        binding.bind_output_to_device("y", &info)?;
        let results = session.run_binding(&binding)?;
        add.outputs[0].compare(&results["y"])
    });
    tally.check("an allocator of the session", || {
        let info = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::Default)?;
        let tensor = Tensor::<f32>::new(&Allocator::new(&session, info)?, [2usize, 3])?;
        ensure(tensor.shape().to_vec() == [2, 3], "another shape")
    });
    tally.check("a model made by the editor", || {
        let mut made = editor_model()?.into_session(&Session::builder(env)?)?;
        let x = Tensor::from_array((vec![2i64], vec![1.0f32, 2.0]))?;
        let results = made.run(ort::inputs!["x" => x])?;
        ensure(results["y"].try_extract_tensor::<f32>()?.1 == [11.0, 22.0], "another sum")
    });
    tally.check("profiling", || {
        let mut profiled = Session::builder(env)?.with_profiling(folder.join("rust_profile"))?.commit_from_file(&add.model)?;
        add.same(&mut profiled)?;
        let path = profiled.end_profiling()?;
        ensure(std::fs::metadata(&path)?.len() > 0, path)
    });
    tally.check("a file that is not there is refused", || refused(open("nowhere.onnx")));
    tally.check("a file that is no model is refused", || refused(open("bad.onnx")));
    tally.check("bytes that are no model are refused", || refused(Session::builder(env)?.commit_from_memory(b"no model")));
    tally.check("a wrong type is refused", || {
        let mut feeds = add.feeds()?;
        feeds[0].1 = Tensor::from_array((vec![1i64, 3], vec![1i64, 2, 3]))?.into_dyn();
        refused(session.run(feeds))
    });
    tally.check("a wrong shape is refused", || {
        let mut feeds = add.feeds()?;
        feeds[0].1 = Tensor::from_array((vec![1i64, 2], vec![1.0f32, 2.0]))?.into_dyn();
        refused(session.run(feeds))
    });
    tally.check("a missing input is refused", || {
        let mut feeds = add.feeds()?;
        feeds.pop();
        refused(session.run(feeds))
    });
    tally.check("the session answers after refusals", || add.same(&mut session));
    Ok(())
}

fn main() -> Outcome {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: program FOLDER")?);
    let env = ort::init().with_name("program").build()?;
    let cases = read_cases(&folder)?;
    let mut tally = Tally::default();
    for c in &cases {
        tally.check(&format!("run {}", c.name), || c.same(&mut Session::builder(&env)?.commit_from_file(&c.model)?));
        tally.check(&format!("run {} from memory", c.name), || {
            let bytes = std::fs::read(&c.model)?;
            c.same(&mut Session::builder(&env)?.commit_from_memory(&bytes)?)
        });
    }
    let add = cases.iter().find(|c| c.name == "add").ok_or("no case 'add'")?;
    behaviours(&mut tally, &env, &folder, add)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(())
}
