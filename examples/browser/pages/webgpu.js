// The programs of `webgpu.py` on the GPU that this browser offers; null where it offers none, or another result.
async function onGpu(program) {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter().catch(() => null);
  if (!adapter) return null;
  const device = await adapter.requestDevice();
  let isLost = false;
  device.lost.then(() => { isLost = true; });
  device.pushErrorScope("validation");
  const memory = device.createBuffer({ size: program.bytes,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  for (const [at, text] of program.memory) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const whole = new Uint8Array((bytes.length + 3) & ~3);      // the queue writes words
    whole.set(bytes);
    device.queue.writeBuffer(memory, at, whole);
  }
  const bound = device.createBindGroupLayout({ entries: [
    { binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: "storage" } }] });
  const layout = device.createPipelineLayout({ bindGroupLayouts: [bound] });
  const group = device.createBindGroup({ layout: bound, entries: [{ binding: 0, resource: { buffer: memory } }] });
  const pipelines = await Promise.all(program.kernels.map(({ code }) => device.createComputePipelineAsync(
    { layout, compute: { module: device.createShaderModule({ code }), entryPoint: "main" } })));
  const result = device.createBuffer({ size: 4 * program.results, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const problem = await device.popErrorScope();
  if (problem) throw new Error(problem.message);

  let before = Promise.resolve();       // calls share the memory, and take turns
  const run = async (input) => {
    if (isLost) throw new Error("the GPU went away.");
    device.queue.writeBuffer(memory, program.input, input);
    const commands = device.createCommandEncoder(), pass = commands.beginComputePass();
    pass.setBindGroup(0, group);
    pipelines.forEach((pipeline, k) => {
      pass.setPipeline(pipeline);
      pass.dispatchWorkgroups(...program.kernels[k].groups);
    });
    pass.end();
    commands.copyBufferToBuffer(memory, program.output, result, 0, 4 * program.results);
    device.queue.submit([commands.finish()]);
    await result.mapAsync(GPUMapMode.READ);
    const values = new Float32Array(result.getMappedRange().slice(0));
    result.unmap();
    return values;
  };
  return (input) => (before = before.catch(() => null).then(() => run(input)));
}

// Whether two ways of computing agree on an input that is none: GPUs may take liberties with arithmetic.
async function agree(gpu, model, count) {
  const input = Float32Array.from({ length: count }, (_, k) => (k * 37 % 101) / 101);
  const [one, [other]] = [await gpu(input), model(input)];
  return one.every((value, k) => Math.abs(value - other[k]) < 1e-3);
}
