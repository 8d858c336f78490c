// What a Node program does with onnxruntime-node: node program.js FOLDER, where FOLDER is made by cases.py.
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

const folder = process.argv[2];
const file = (name) => path.join(folder, name);
const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, bool: Uint8Array, uint8: Uint8Array, float16: Uint16Array
};
let passed = 0;
let failed = 0;

async function check(name, work) {
  try {
    const wrong = await work();
    if (wrong) throw new Error(wrong);
    ++passed;
    console.log(`ok ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAIL ${name}: ${error.message || error}`);
  }
}

async function refused(work) {
  try {
    await work();
  } catch (error) {
    return error.message ? '' : 'an error without a message';
  }
  return 'nothing was refused';
}

function read({type, dims, data}) {
  const bytes = fs.readFileSync(file(data));
  const elements = new arrays[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return new ort.Tensor(type, elements, dims);
}

function difference(got, wanted) {
  if (got.type !== wanted.type) return `type ${got.type} instead of ${wanted.type}`;
  if (got.dims.join() !== wanted.dims.join()) return `shape ${got.dims} instead of ${wanted.dims}`;
  let largest = 0;
  for (const x of wanted.data) largest = Math.max(largest, Math.abs(Number(x)));
  for (let i = 0; i < wanted.data.length; ++i) {
    if (!(Math.abs(Number(got.data[i]) - Number(wanted.data[i])) <= 1e-4 * largest))
      return `element ${i} is ${got.data[i]} instead of ${wanted.data[i]}`;
  }
  return '';
}

function cases() {
  const out = [];
  for (const line of fs.readFileSync(file('cases.txt'), 'utf8').trim().split('\n')) {
    const words = line.split(' ');
    if (words[0] === 'model') {
      out.push({name: words[1], model: words[2], input: [], output: []});
    } else {
      const dims = words[3] === '-' ? [] : words[3].split(',').map(Number);
      out.at(-1)[words[0]].push({name: words[1], type: words[2], dims, data: words[4]});
    }
  }
  return out;
}

const feeds = (c) => Object.fromEntries(c.input.map((v) => [v.name, read(v)]));

async function same(session, c) {
  const results = await session.run(feeds(c));
  for (const v of c.output) {
    const wrong = difference(results[v.name], read(v));
    if (wrong) return `${v.name}: ${wrong}`;
  }
  return '';
}

async function main() {
  const all = cases();
  const add = all.find((c) => c.name === 'add');
  for (const c of all) {
    await check(`run ${c.name}`, async () => same(await ort.InferenceSession.create(file(c.model)), c));
    await check(`run ${c.name} from memory`, async () => same(await ort.InferenceSession.create(fs.readFileSync(file(c.model))), c));
  }
  const session = await ort.InferenceSession.create(file('add.onnx'));
  await check('names', () => session.inputNames.join() === 'x,w' && session.outputNames.join() === 'y' ? '' : `${session.inputNames}`);
  await check('metadata', () => {
    const x = session.inputMetadata[0];
    return x.name === 'x' && x.type === 'float32' && x.shape[0] === 'N' && x.shape[1] === 3 ? '' : JSON.stringify(x);
  });
  await check('one of three outputs', async () => {
    const three = await ort.InferenceSession.create(file('three.onnx'));
    const results = await three.run({x: new ort.Tensor('float32', [-1, 2], [2])}, ['b']);
    return Object.keys(results).join() === 'b' && results.b.data[0] === 1 ? '' : JSON.stringify(results);
  });
  await check('strings', async () => {
    const strings = await ort.InferenceSession.create(file('strings.onnx'));
    const {y} = await strings.run({x: new ort.Tensor('string', ['a', 'grüße', ''], [3])});
    return y.data.join('|') === 'a|grüße|' ? '' : y.data.join('|');
  });
  await check('options', async () => same(await ort.InferenceSession.create(file('add.onnx'), {
    graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential',
    enableCpuMemArena: false, enableMemPattern: false, logId: 'log', logSeverityLevel: 4, executionProviders: ['cpu']
  }), add));
  await check('run options', async () => {
    const {y} = await session.run(feeds(add), {logSeverityLevel: 4, tag: 'run'});
    return difference(y, read(add.output[0]));
  });
  await check('an output given beforehand', async () => {
    const {y} = await session.run(feeds(add), {y: null});
    return difference(y, read(add.output[0]));
  });
  await check('runs at once', async () => {
    const results = await Promise.all(Array.from({length: 16}, () => session.run(feeds(add))));
    return results.map((r) => difference(r.y, read(add.output[0]))).find((wrong) => wrong) || '';
  });
  await check('a file that is not there is refused', () => refused(() => ort.InferenceSession.create(file('nowhere.onnx'))));
  await check('a file that is no model is refused', () => refused(() => ort.InferenceSession.create(file('bad.onnx'))));
  await check('bytes that are no model are refused', () => refused(() => ort.InferenceSession.create(Buffer.from('no model'))));
  await check('a wrong type is refused', () => refused(() => session.run({...feeds(add), x: new ort.Tensor('int64', [1n, 2n, 3n], [1, 3])})));
  await check('a wrong shape is refused', () => refused(() => session.run({...feeds(add), x: new ort.Tensor('float32', [1, 2], [1, 2])})));
  await check('a missing input is refused', () => refused(() => session.run({x: feeds(add).x})));
  await check('an unknown output is refused', () => refused(() => session.run(feeds(add), ['nope'])));
  await check('the session answers after refusals', () => same(session, add));
  await check('release', async () => { await session.release(); return ''; });
  console.log(`${passed} passed, ${failed} failed`);
}

main();
