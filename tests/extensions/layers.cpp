// Layers, containers, functions and optimizers of C++, for Python to compare with its own: one function a test.
#include <torch/extension.h>

namespace F = torch::nn::functional;
using torch::Tensor;

struct Net : torch::nn::Cloneable<Net> {
  explicit Net(int64_t width) : width(width) { reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, width, {3, 3}).stride(2).padding(torch::kValid).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(width));
    drop = register_module("drop", torch::nn::Dropout(torch::nn::DropoutOptions(0.25)));
    fc = register_module("fc", torch::nn::Linear(width * 9, 4));
    scale = register_parameter("scale", torch::ones({4}));
    register_buffer("steps", torch::zeros({1}, torch::kLong));
  }
  Tensor forward(Tensor x) { return fc(drop(norm(conv(x)).relu()).flatten(1)) * scale; }
  int64_t width;
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear fc{nullptr};
  Tensor scale;
};

std::string text_of(const torch::nn::Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const std::string& name, std::vector<Tensor> parameters) {
  using namespace torch::optim;
  if (name == "SGD") return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(0.9).nesterov(true));
  if (name == "Adam") return std::make_unique<Adam>(parameters, AdamOptions(0.01).betas({0.8, 0.9}).amsgrad(true));
  if (name == "AdamW") return std::make_unique<AdamW>(parameters, AdamWOptions(0.01).weight_decay(0.1));
  if (name == "Adagrad") return std::make_unique<Adagrad>(parameters, AdagradOptions(0.02).lr_decay(0.1));
  if (name == "RMSprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(0.005).centered(true));
  return std::make_unique<LBFGS>(parameters, LBFGSOptions(0.5).max_iter(4).line_search_fn("strong_wolfe"));
}

// The losses of a few steps, from a seed, with the rate halved after every second one.
std::vector<double> losses(const std::string& name, int64_t seed, Tensor x, Tensor y) {
  torch::manual_seed(seed);
  Net net(3);
  auto optimizer = optimizer_of(name, net.parameters());
  torch::optim::StepLR scheduler(*optimizer, 2, 0.5);
  std::vector<double> seen;
  for (int i = 0; i < 5; ++i) {
    auto closure = [&] {
      optimizer->zero_grad();
      auto loss = F::cross_entropy(net.forward(x), y, F::CrossEntropyFuncOptions().label_smoothing(0.1));
      loss.backward();
      return loss;
    };
    seen.push_back(optimizer->step(closure).item<double>());
    scheduler.step();
  }
  return seen;
}

std::vector<std::string> tree() {
  auto net = std::make_shared<Net>(2);
  std::vector<std::string> lines;
  for (const auto& p : net->named_parameters()) lines.push_back(p.key());
  for (const auto& b : net->named_buffers()) lines.push_back(b.key());
  for (const auto& m : net->named_modules("net")) lines.push_back(m.key());
  for (const auto& c : net->named_children()) lines.push_back(c.key());
  TORCH_CHECK(net->parameters(false).size() == 1 && net->modules().size() == 5 && net->children().size() == 4);
  TORCH_CHECK(net->children()[3]->as<torch::nn::Linear>() && !net->children()[3]->as<torch::nn::Conv2dImpl>());
  int linears = 0;
  net->apply([&](torch::nn::Module& m) { linears += m.as<torch::nn::LinearImpl>() != nullptr; });
  TORCH_CHECK(linears == 1);
  return lines;
}

// Everything that moves or copies a module keeps handles, fields and registration together.
void states() {
  auto net = std::make_shared<Net>(2);
  Tensor weight = net->fc->weight;
  net->to(torch::kDouble);
  TORCH_CHECK(weight.scalar_type() == torch::kDouble && net->norm->running_mean.scalar_type() == torch::kDouble && net->norm->num_batches_tracked.scalar_type() == torch::kLong);
  TORCH_CHECK(net->forward(torch::randn({2, 1, 8, 8}, torch::kDouble)).scalar_type() == torch::kDouble);
  net->eval();
  TORCH_CHECK(!net->is_training() && !net->drop->is_training());
  auto x = torch::randn({2, 1, 8, 8}, torch::kDouble);
  TORCH_CHECK(torch::equal(net->forward(x), net->forward(x)));
  auto copy = std::dynamic_pointer_cast<Net>(net->clone());
  copy->eval();
  TORCH_CHECK(!copy->fc->weight.is_same(net->fc->weight) && copy->parameters().size() == net->parameters().size());
  TORCH_CHECK(torch::equal(copy->forward(x), net->forward(x)));
  {
    torch::NoGradGuard guard;
    net->fc->weight.zero_();
    net->fc->bias.fill_(2);
  }
  TORCH_CHECK(net->forward(x).eq(2).all().item<bool>());
  net->fc->weight = torch::ones_like(weight);            // a field that takes another tensor is what forward uses
  TORCH_CHECK(!net->forward(x).eq(2).all().item<bool>());
  torch::nn::Dropout drop(0.5);
  drop->options.p(0.0);                                  // and so is an option
  TORCH_CHECK(torch::equal(drop(x), x));
  net->forward(x).sum().backward();
  net->zero_grad();
  TORCH_CHECK(!net->scale.grad().defined());
}

std::vector<std::string> printed() {
  torch::nn::Sequential body(torch::nn::Linear(3, 4), torch::nn::Functional(torch::relu), torch::nn::Conv1d(1, 2, 5));
  torch::nn::Sequential named({{"first", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false))}, {"body", body}});
  return {text_of(*named), text_of(*torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions({3, 2}).stride({2, 1}))), text_of(*torch::nn::Embedding(5, 2))};
}

// Each layer on an input; Python builds its own the same way.
std::map<std::string, Tensor> outputs(Tensor rows, Tensor images, Tensor numbers, int64_t seed) {
  using namespace torch::nn;
  torch::manual_seed(seed);
  std::map<std::string, Tensor> found;
  found["linear"] = Linear(6, 4)(rows);
  found["bilinear"] = Bilinear(6, 6, 2)(rows, rows);
  found["transposed"] = ConvTranspose2d(ConvTranspose2dOptions(3, 2, 3).stride(2).padding(1).output_padding(1))(images);
  found["same"] = Conv2d(Conv2dOptions(3, 2, 3).padding(torch::kSame).padding_mode(torch::kReflect).dilation(2))(images);
  found["group"] = GroupNorm(GroupNormOptions(1, 3).affine(false))(images);
  found["layer"] = LayerNorm(LayerNormOptions({6}).eps(1e-3))(rows);
  found["instance"] = InstanceNorm2d(InstanceNorm2dOptions(3).affine(true))(images);
  found["adaptive"] = AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({3, torch::nullopt}))(images);
  found["pooled"] = AvgPool2d(AvgPool2dOptions(2).ceil_mode(true).count_include_pad(false).padding(1))(images);
  found["lp"] = LPPool2d(LPPool2dOptions(2, 2))(images);
  found["pad"] = ConstantPad2d(ConstantPad2dOptions({1, 2, 0, 1}, 3.5))(images);
  found["upsampled"] = Upsample(UpsampleOptions().scale_factor(std::vector<double>({2, 2})).mode(torch::kBilinear).align_corners(false))(images);
  found["shuffled"] = PixelUnshuffle(2)(images);
  found["unfolded"] = Unfold(UnfoldOptions({2, 2}).stride(2))(images);
  found["elu"] = ELU(ELUOptions().alpha(0.5))(rows);
  found["prelu"] = PReLU()(rows);
  found["softmax"] = Softmax(1)(rows);
  found["dropped"] = Dropout(0.5)(rows);
  found["embedded"] = Embedding(EmbeddingOptions(10, 4).padding_idx(0))(numbers);
  found["bag"] = EmbeddingBag(EmbeddingBagOptions(10, 4).mode(torch::kSum))(numbers);
  found["pretrained"] = Embedding::from_pretrained(torch::arange(20.).view({10, 2}))(numbers);
  auto lstm = LSTM(LSTMOptions(6, 5).num_layers(2).bidirectional(true).batch_first(true));
  auto [sequence, state] = lstm(rows.unsqueeze(0));
  found["lstm"] = sequence;
  found["cell"] = std::get<1>(state);
  found["gru"] = std::get<0>(GRU(6, 5)(rows.unsqueeze(0)));
  found["rnn"] = std::get<0>(RNN(RNNOptions(6, 5).nonlinearity(torch::kReLU))(rows.unsqueeze(0)));
  found["gru cell"] = GRUCell(6, 3)(rows);
  found["attention"] = std::get<0>(MultiheadAttention(MultiheadAttentionOptions(6, 2))(rows, rows, rows));
  TransformerEncoder encoder(TransformerEncoderOptions(TransformerEncoderLayerOptions(6, 2).dim_feedforward(8).dropout(0), 2).norm(AnyModule(LayerNorm(LayerNormOptions({6})))));
  int linears = 0;
  for (const auto& module : encoder->modules()) linears += module->as<LinearImpl>() != nullptr;
  TORCH_CHECK(linears == 6, "the parts of a transformer are layers too, got ", linears);
  found["encoder"] = encoder(rows.unsqueeze(1));
  found["huber"] = HuberLoss(HuberLossOptions().delta(0.5).reduction(torch::kSum))(rows, rows * 2);
  found["mse"] = MSELoss(torch::kNone)(rows, rows.flip(0));
  found["cross entropy"] = CrossEntropyLoss(CrossEntropyLossOptions().weight(torch::arange(6.)).reduction(torch::kSum))(rows, numbers.select(1, 0).remainder(6));
  found["triplet"] = TripletMarginWithDistanceLoss(TripletMarginWithDistanceLossOptions().distance_function([](const Tensor& a, const Tensor& b) { return (a - b).abs().sum(1); }))(rows, rows + 1, rows - 2);
  auto pool = MaxPool2d(MaxPool2dOptions(2).stride(2));
  auto [highest, places] = pool->forward_with_indices(images);
  found["unpooled"] = MaxUnpool2d(2)(highest, places);
  return found;
}

std::map<std::string, Tensor> functions(Tensor rows, Tensor images) {
  std::map<std::string, Tensor> found;
  found["gelu"] = F::gelu(rows, F::GELUFuncOptions().approximate("tanh"));
  found["leaky_relu"] = F::leaky_relu(rows, F::LeakyReLUFuncOptions().negative_slope(0.3));
  found["max_pool2d"] = F::max_pool2d(images, F::MaxPool2dFuncOptions(2).stride(1));
  found["interpolate"] = F::interpolate(images, F::InterpolateFuncOptions().size(std::vector<int64_t>({5, 7})).mode(torch::kBicubic).align_corners(true));
  found["pad"] = F::pad(images, F::PadFuncOptions({1, 1, 2, 0}).mode(torch::kReplicate));
  found["normalize"] = F::normalize(rows, F::NormalizeFuncOptions().p(1).dim(0));
  found["batch_norm"] = F::batch_norm(images, torch::zeros(3), torch::ones(3), F::BatchNormFuncOptions().training(true));
  found["conv2d"] = F::conv2d(images, torch::ones({2, 3, 2, 2}), F::Conv2dFuncOptions().bias(torch::ones(2)).stride(2));
  found["grid"] = F::grid_sample(images, F::affine_grid(torch::eye(2, 3).unsqueeze(0).expand({images.size(0), 2, 3}), {images.size(0), 3, 4, 4}, false), F::GridSampleFuncOptions().mode(torch::kNearest).align_corners(false));
  found["one_hot"] = F::one_hot(torch::arange(3), 4);
  found["log_softmax"] = F::log_softmax(rows, F::LogSoftmaxFuncOptions(1).dtype(torch::kDouble));
  found["layer_norm"] = F::layer_norm(rows, F::LayerNormFuncOptions({6}).weight(torch::full({6}, 2.0)));
  found["cosine"] = F::cosine_similarity(rows, rows.flip(0), F::CosineSimilarityFuncOptions().dim(1));
  return found;
}

std::vector<Tensor> filled(int64_t seed) {
  torch::manual_seed(seed);
  auto make = [] { return torch::empty({4, 6}); };
  namespace init = torch::nn::init;
  return {init::kaiming_uniform_(make(), 0.1, torch::kFanOut, torch::kReLU), init::xavier_normal_(make(), 2), init::orthogonal_(make()),
          init::uniform_(make(), -1, 1), init::eye_(make()), init::constant_(make(), 3), init::trunc_normal_(make())};
}

std::vector<Tensor> packed(Tensor batch, Tensor lengths, int64_t seed) {
  namespace rnn = torch::nn::utils::rnn;
  torch::manual_seed(seed);
  torch::nn::GRU gru(batch.size(2), 3);
  auto [output, last] = gru->forward_with_packed_input(rnn::pack_padded_sequence(batch, lengths, false, false));
  return {std::get<0>(rnn::pad_packed_sequence(output)), last};
}

// Containers and groups of parameters, checked here; what is wrong is thrown.
void containers() {
  using namespace torch::nn;
  ModuleList list(Linear(2, 3), Linear(3, 2));
  Tensor x = torch::randn({1, 2});
  for (const auto& module : *list) x = module->as<Linear>()->forward(x);
  TORCH_CHECK(list->size() == 2 && list->parameters().size() == 4 && x.size(1) == 2);
  Sequential body;
  body->push_back("first", Linear(2, 3));
  body->push_back(BatchNorm1d(3));
  TORCH_CHECK(body->named_parameters().contains("first.weight") && body->named_parameters().contains("1.weight"));
  TORCH_CHECK(body->at<LinearImpl>(0).options.out_features() == 3);
  body->push_back(ConvTranspose1d(3, 2, 1));             // its forward has an argument with a default
  TORCH_CHECK(Sequential(ConvTranspose1d(3, 2, 1))->forward(torch::ones({1, 3, 4})).size(1) == 2);
  AnyModule any(Bilinear(2, 2, 1));
  TORCH_CHECK(any.forward(torch::ones({1, 2}), torch::ones({1, 2})).numel() == 1);
  ModuleDict dict(std::vector<std::pair<std::string, std::shared_ptr<Module>>>{{"a", Linear(1, 1).ptr()}});
  TORCH_CHECK(dict->contains("a") && dict->keys().size() == 1);
  ParameterDict parameters;
  parameters->insert("w", torch::ones({2}, torch::requires_grad()));
  TORCH_CHECK(parameters->parameters().size() == 1 && parameters["w"].requires_grad());

  Linear one(2, 2), two(2, 2);
  torch::optim::SGD optimizer({torch::optim::OptimizerParamGroup(one->parameters(), std::make_unique<torch::optim::SGDOptions>(1.0)), torch::optim::OptimizerParamGroup(two->parameters())}, torch::optim::SGDOptions(0.5));
  for (auto& group : optimizer.param_groups()) static_cast<torch::optim::SGDOptions&>(group.options()).lr(group.options().get_lr() / 2);
  auto first = one->weight.detach().clone(), second = two->weight.detach().clone();
  (one->weight.sum() + two->weight.sum()).backward();
  optimizer.step();
  TORCH_CHECK(torch::allclose(one->weight, first - 0.5) && torch::allclose(two->weight, second - 0.25));
  const auto state = optimizer.state_dict();
  optimizer.param_groups()[0].options().set_lr(7);
  optimizer.load_state_dict(state);
  TORCH_CHECK(optimizer.param_groups()[0].options().get_lr() == 0.5);
  torch::optim::ReduceLROnPlateauScheduler plateau(optimizer, torch::optim::ReduceLROnPlateauScheduler::min, 0.5, 1);
  for (int i = 0; i < 3; ++i) plateau.step(1.0);
  TORCH_CHECK(optimizer.param_groups()[0].options().get_lr() == 0.25);
  TORCH_CHECK(std::abs(utils::clip_grad_norm_(one->parameters(), 1.0) - 2) < 1e-6 && std::abs(one->weight.grad().norm().item<double>() - 1) < 1e-4);
  auto flat = utils::parameters_to_vector(one->parameters());
  utils::vector_to_parameters(flat * 0, one->parameters());
  TORCH_CHECK(flat.numel() == 6 && one->weight.eq(0).all().item<bool>());
}

// Layers put into the holders of a composed one are what computes; those that were there stay registered.
void replaced_parts() {
  using namespace torch::nn;
  torch::NoGradGuard guard;
  TransformerEncoderLayer layer(TransformerEncoderLayerOptions(4, 1).dim_feedforward(3).dropout(0.0));
  Tensor x = torch::randn({2, 1, 4});
  Tensor before = layer(x);
  Linear narrow(3, 4);
  init::zeros_(narrow->weight);
  init::zeros_(narrow->bias);
  auto old = layer->linear2;
  layer->linear2 = narrow;
  Tensor without = layer->norm1(x + std::get<0>(layer->self_attn(x, x, x)));
  TORCH_CHECK(torch::allclose(layer(x), layer->norm2(without), 1e-5, 1e-6));
  init::ones_(narrow->bias);                                   // in place
  TORCH_CHECK(torch::allclose(layer(x), layer->norm2(without + 1), 1e-5, 1e-6));
  narrow->bias = torch::full({4}, 2.0);                        // another tensor in the part
  TORCH_CHECK(torch::allclose(layer(x), layer->norm2(without + 2), 1e-5, 1e-6));
  TORCH_CHECK(layer->named_parameters()["linear2.weight"].is_same(old->weight));
  layer->linear2 = old;
  TORCH_CHECK(torch::equal(layer(x), before));

  TransformerEncoder encoder(TransformerEncoderOptions(TransformerEncoderLayerOptions(4, 1).dim_feedforward(3).dropout(0.0), 2));
  encoder->layers = ModuleList(layer);
  TORCH_CHECK(torch::allclose(encoder(x), before, 1e-5, 1e-6));
  AdaptiveLogSoftmaxWithLoss loss(AdaptiveLogSoftmaxWithLossOptions(4, 6, {2, 4}));
  loss->head = Linear(LinearOptions(4, 4).bias(false));
  init::zeros_(loss->head->weight);
  TORCH_CHECK(torch::allclose(loss->log_prob(x[0]).select(1, 0), torch::full({1}, -std::log(4.0))));
}

void refuse(const std::string& what) {
  using namespace torch::nn;
  if (what == "empty") Linear(nullptr)->reset();
  if (what == "twice") { ModuleDict d; d->register_parameter("w", torch::ones(1)); d->register_parameter("w", torch::ones(1)); }
  if (what == "dot") ModuleDict()->register_buffer("a.b", torch::ones(1));
  if (what == "clone") std::make_shared<Module>()->clone();
  if (what == "argument") AnyModule(Linear(1, 1)).forward(3);
  if (what == "count") AnyModule(Linear(1, 1)).forward(torch::ones(1), torch::ones(1));
  if (what == "shape") Linear(2, 1)(torch::ones({1, 3}));
  if (what == "list") Conv2dOptions(1, 1, {1, 2, 3});
  if (what == "options") { Linear l(1, 1); l->options.bias(false); l(torch::ones({1, 1})); }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("losses", &losses);
  m.def("tree", &tree);
  m.def("states", &states);
  m.def("printed", &printed);
  m.def("outputs", &outputs);
  m.def("functions", &functions);
  m.def("filled", &filled);
  m.def("packed", &packed);
  m.def("containers", &containers);
  m.def("replaced_parts", &replaced_parts);
  m.def("refuse", &refuse);
}
