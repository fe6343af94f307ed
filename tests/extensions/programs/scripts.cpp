// Scripts, archives and pickles from C++; each check prints its name once it holds. Arguments: a folder.
#include <torch/script.h>

#include <fstream>
#include <sstream>

static void holds(bool condition, const std::string& name) {
  std::cout << name << (condition ? ": ok" : ": FAILED") << std::endl;
}
template <class F>
static std::string error_of(F run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}
static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

static void check_modules(const std::string& folder) {
  auto module = torch::jit::load(folder + "/net.pt", at::kCPU);
  module.eval();
  holds(!module.is_training(), "eval");
  const auto x = torch::ones({2, 3});
  const auto y = module.forward({x}).toTensor();
  holds(y.sizes() == at::IntArrayRef({2, 4}), "forward");
  auto parts = module.run_method("parts", x, 2).toTuple();
  holds(parts->size() == 3 && parts->elements()[1].toInt() == 2 && parts->elements()[2].toStringRef() == "two", "tuple");
  auto table = module.get_method("table")({x}, {{"scale", 2.0}}).toGenericDict();
  holds(table.at(std::string("sum")).toTensor().item<double>() == 12, "dict and keywords");
  auto rows = module.run_method("rows", std::vector<at::Tensor>{x, x * 2}).toTensorVector();
  holds(rows.size() == 2 && rows[1].sum().item<double>() == 6, "lists");
  holds(module.run_method("maybe", c10::IValue()).isNone() && module.run_method("maybe", x).toOptional<at::Tensor>().has_value(), "optional");
  holds(module.attr("scale").toDouble() == 2.5 && module.attr("words").to<std::vector<std::string>>() == std::vector<std::string>{"a", "b"}, "attributes");
  module.setattr("scale", 3.0);
  holds(module.attr("scale").toDouble() == 3.0 && module.attr("nothing", 7).toInt() == 7, "setattr");
  holds(has(error_of([&] { module.setattr("nothing", 1); }), "nothing"), "setattr refuses");
  const auto parameters = module.named_parameters();
  holds(parameters.size() == 2 && parameters[0].name == "linear.weight" && parameters[0].value.size(0) == 4, "parameters");
  holds(module.named_buffers().size() == 1 && module.named_children().size() == 1 && module.modules().size() == 2, "members");
  holds(module.attr("linear").isModule() && module.attr("linear").toModule().forward({x}).isTensor(), "submodules");
  holds(module.find_method("rows") && !module.find_method("columns"), "find_method");
  holds(has(error_of([&] { module.get_method("columns"); }), "columns"), "get_method refuses");
  holds(has(error_of([&] { module.forward({torch::ones({2, 5})}); }), "shape"), "errors of ops");
  holds(!error_of([&] { module.forward({x, x, x}); }).empty(), "too many arguments");
  holds(has(error_of([&] { torch::jit::load(folder + "/absent.pt"); }), "absent.pt"), "a file that is not there");
  holds(has(error_of([] { torch::jit::Module().forward({}); }), "empty"), "an empty module");

  torch::NoGradGuard guard;
  auto frozen = torch::jit::freeze(module), best = torch::jit::optimize_for_inference(module);
  holds(frozen.forward({x}).toTensor().allclose(y) && best.forward({x}).toTensor().allclose(y) && frozen.parameters().empty(), "freeze");
  auto kept = torch::jit::freeze(module, std::vector<std::string>{"rows"});
  holds(kept.find_method("rows") && !kept.find_method("table"), "freeze keeps");

  std::stringstream stream;
  module.save(stream, {{"notes.txt", "said"}});
  torch::jit::ExtraFilesMap extra{{"notes.txt", ""}};
  auto again = torch::jit::load(stream, std::nullopt, extra);
  holds(again.forward({x}).toTensor().equal(y) && extra["notes.txt"] == "said" && again.attr("scale").toDouble() == 3.0, "streams and extra files");
  auto copy = module.deepcopy();
  copy.parameters()[0].zero_();
  holds(module.forward({x}).toTensor().equal(y) && !copy.forward({x}).toTensor().equal(y), "deepcopy");
  module.to(at::kDouble);
  holds(module.parameters()[0].dtype() == at::kDouble, "to a type");
  module.to(at::kFloat);
  module.save(folder + "/saved.pt");
}

static void check_texts() {
  auto unit = torch::jit::compile("def twice(x: Tensor, n: int = 2) -> Tensor:\n    return x * n\n");
  holds(unit->run_method("twice", torch::ones({2})).toTensor().sum().item<double>() == 4, "compile");
  holds(unit->get_function("twice")({torch::ones({2}), 5}).toTensor().sum().item<double>() == 10, "get_function");
  holds(has(error_of([&] { unit->get_function("thrice"); }), "thrice"), "a function that is not there");
  holds(!error_of([] { torch::jit::compile("def broken(x:\n"); }).empty(), "text that cannot be read");
  torch::jit::Module made("Made");
  made.register_parameter("weight", torch::full({2}, 3.0), false);
  made.define("def forward(self, x: Tensor) -> Tensor:\n    return self.weight + x\n");
  holds(made.forward({torch::ones({2})}).toTensor().sum().item<double>() == 8, "a module made of text");
}

static void check_archives(const std::string& folder) {
  const auto t = torch::arange(6.0).view({2, 3});
  torch::save(t, folder + "/tensor.pt");
  at::Tensor back, filled = torch::zeros({2, 3});
  torch::load(back, folder + "/tensor.pt");
  torch::load(filled, folder + "/tensor.pt", at::kCPU);
  holds(back.equal(t) && filled.equal(t), "a tensor");
  std::stringstream stream;
  torch::save(std::vector<at::Tensor>{t, t + 1}, stream);
  std::vector<at::Tensor> all;
  torch::load(all, stream);
  holds(all.size() == 2 && all[1].equal(t + 1), "tensors in a stream");

  torch::serialize::OutputArchive out, inner;
  inner.write("steps", c10::IValue(3));
  inner.write("mean", t.mean(), true);
  out.write("weight", t);
  out.write("inner", inner);
  holds(has(error_of([&] { out.write("weight", t); }), "weight"), "a name twice");
  holds(has(error_of([&] { out.write("none", at::Tensor()); }), "undefined"), "an undefined tensor");
  std::string bytes;
  out.save_to([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); return size; });
  out.save_to(folder + "/archive.pt");
  torch::serialize::InputArchive in, part;
  in.load_from(bytes.data(), bytes.size());
  in.read("inner", part);
  c10::IValue steps;
  at::Tensor mean;
  part.read("steps", steps);
  part.read("mean", mean, true);
  holds(steps.toInt() == 3 && mean.item<double>() == 2.5 && in.keys().size() == 2, "nested archives");
  at::Tensor none;
  holds(!in.try_read("absent", none) && has(error_of([&] { part.read("absent", none); }), "'inner.absent'"), "a name that is not there");
  holds(!error_of([&] { in.load_from("no archive", 10); }).empty(), "bytes that are no archive");
}

static void check_pickles(const std::string& folder) {
  c10::Dict<std::string, c10::IValue> dict;
  dict.insert("tensor", torch::ones({2}));
  dict.insert("list", std::vector<int64_t>{1, 2});
  const auto content = torch::pickle_save(dict);
  std::ofstream(folder + "/values.pt", std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  std::ifstream file(folder + "/from_python.pt", std::ios::binary);
  const std::vector<char> theirs((std::istreambuf_iterator<char>(file)), {});
  auto value = torch::pickle_load(theirs).toGenericDict();
  holds(value.at(std::string("x")).toTensor().sum().item<double>() == 6 && value.at(std::string("n")).toInt() == 4, "pickles of Python");
  holds(!error_of([] { torch::pickle_load({'x', 'y'}); }).empty(), "bytes that are no pickle");
}

int main(int, char** argv) {
  const std::string folder = argv[1];
  check_modules(folder);
  check_texts();
  check_archives(folder);
  check_pickles(folder);
  std::cout << "end" << std::endl;
}
