// torch::data: datasets, transforms, samplers and loaders; each check prints its name. Argument: a folder of MNIST's test files.
#include <torch/torch.h>

#include <atomic>
#include <fstream>
#include <sstream>

namespace data = torch::data;
static void holds(bool condition, const std::string& name) { std::cout << name << (condition ? ": ok" : ": FAILED") << std::endl; }

struct Squares : data::datasets::Dataset<Squares> {
  explicit Squares(int64_t count, int64_t broken = -1) : count(count), broken(broken) {}
  data::Example<> get(size_t i) override {
    TORCH_CHECK_VALUE(static_cast<int64_t>(i) != broken, "no example ", i);
    const auto n = static_cast<int64_t>(i);
    return {torch::full({1, 2, 2}, static_cast<double>(n)), torch::tensor(n * n)};
  }
  std::optional<size_t> size() const override { return count; }
  int64_t count, broken;
};
struct Countdown : data::datasets::StatefulDataset<Countdown, std::vector<int>> {
  std::optional<std::vector<int>> get_batch(size_t size) override {
    std::vector<int> batch;
    while (left > 0 && batch.size() < size) batch.push_back(left--);
    return batch.empty() ? std::nullopt : std::make_optional(batch);
  }
  std::optional<size_t> size() const override { return std::nullopt; }
  void reset() override { left = 5; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  int left = 5;
};

template <class Loader>
static std::vector<int64_t> targets(Loader& loader) {
  std::vector<int64_t> all;
  for (auto& batch : loader)
    for (int64_t i = 0; i < batch.target.numel(); ++i) all.push_back(batch.target[i].template item<int64_t>());
  return all;
}
static std::vector<int64_t> squares(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(i * i);
  return all;
}
static auto stacked(Squares source) { return std::move(source).map(data::transforms::Stack<>()); }

static void check_loaders() {
  using Sequential = data::samplers::SequentialSampler;
  auto plain = data::make_data_loader<Sequential>(stacked(Squares(10)), data::DataLoaderOptions().batch_size(3));
  holds(targets(*plain) == squares(10) && targets(*plain) == squares(10), "in order, twice");
  auto last = data::make_data_loader<Sequential>(stacked(Squares(10)), data::DataLoaderOptions(3).drop_last(true));
  holds(targets(*last).size() == 9, "the last batch left out");
  auto threads = data::make_data_loader<Sequential>(stacked(Squares(40)), data::DataLoaderOptions(3).workers(3));
  holds(targets(*threads) == squares(40), "workers keep the order");
  int seen = 0;
  for (auto& batch : *threads) {
    if (++seen == 2) break;
    (void)batch;
  }
  holds(targets(*threads) == squares(40), "a walk after one that was left");
  auto loose = data::make_data_loader<Sequential>(stacked(Squares(40)), data::DataLoaderOptions(3).workers(2).enforce_ordering(false).max_jobs(2));
  auto any = targets(*loose);
  std::sort(any.begin(), any.end());
  holds(any == squares(40), "workers without order");
  threads->join();
  bool refused = false;
  try { targets(*threads); } catch (const c10::Error&) { refused = true; }
  holds(refused, "a joined loader refuses");
  auto broken = data::make_data_loader<Sequential>(stacked(Squares(10, 7)), data::DataLoaderOptions(2).workers(2));
  std::string said;
  try { targets(*broken); } catch (const data::WorkerException& error) { said = error.what(); }
  holds(said.find("no example 7") != std::string::npos, "an error of a worker");
  torch::manual_seed(3);
  auto random = data::make_data_loader(stacked(Squares(6)), 6);
  torch::manual_seed(3);
  (void)torch::randperm(6);
  const auto order = torch::randperm(6);
  torch::manual_seed(3);
  auto same = data::make_data_loader(stacked(Squares(6)), 6);
  holds(same->begin()->target.equal(order * order), "the order of torch's generator");
  holds(random->options().batch_size() == 6, "options");
  auto countdown = data::make_data_loader(data::datasets::make_shared_dataset<Countdown>(), data::DataLoaderOptions(2).workers(1));
  std::vector<size_t> sizes;
  for (auto& batch : *countdown) sizes.push_back(batch.size());
  holds(sizes == std::vector<size_t>{2, 2, 1}, "a dataset with a state");
}

static void check_transforms() {
  auto dataset = Squares(4).map(data::transforms::Normalize<>(1.0, 2.0)).map(data::transforms::Lambda<data::Example<>>([](data::Example<> one) {
    one.target = one.target + 1;
    return one;
  })).map(data::transforms::Stack<>());
  std::vector<size_t> both{1, 3};
  auto batch = dataset.get_batch(both);
  holds(batch.data.sizes() == at::IntArrayRef({2, 1, 2, 2}) && batch.data[1][0][0][0].item<double>() == 1 && batch.target[1].item<int64_t>() == 10, "normalize, lambda, stack");
  auto rows = data::datasets::TensorDataset(torch::arange(6.0).view({3, 2})).map(data::transforms::Stack<data::TensorExample>());
  holds(rows.get_batch(both[0]).data.equal(torch::tensor({{2.0, 3.0}})) && *rows.size() == 3, "rows of a tensor");
  auto doubled = data::transforms::TensorLambda<>([](at::Tensor t) { return t * 2; });
  holds(doubled(torch::ones({2})).sum().item<double>() == 4, "a lambda of tensors");
}

static void check_samplers() {
  data::samplers::DistributedSequentialSampler first(10, 3, 0), last(10, 3, 2), without(10, 3, 2, false);
  holds(*last.next(10) == std::vector<size_t>{8, 9, 0, 1} && first.next(10)->size() == 4 && without.next(10)->size() == 3, "processes share examples");
  data::samplers::DistributedRandomSampler a(8, 2, 0), b(8, 2, 1);
  auto all = *a.next(8), other = *b.next(8);
  all.insert(all.end(), other.begin(), other.end());
  std::sort(all.begin(), all.end());
  holds(all == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7}, "processes share them at random");
  data::samplers::RandomSampler random(10), back(10);
  (void)random.next(4);
  std::stringstream stream;
  torch::save(random, stream);
  torch::load(back, stream);
  holds(back.index() == 4 && *back.next(6) == *random.next(6) && !random.next(1), "a sampler's state");
  data::samplers::StreamSampler stream_sampler(5);
  holds(stream_sampler.next(3)->size() == 3 && stream_sampler.next(3)->size() == 2 && !stream_sampler.next(3), "streams");
}

int main(int, char** argv) {
  check_loaders();
  check_transforms();
  check_samplers();
  data::datasets::MNIST digits(argv[1], data::datasets::MNIST::Mode::kTest);
  auto one = digits.get(3);
  holds(!digits.is_train() && *digits.size() == 10000 && one.target.item<int64_t>() == 3 && one.data.sum().item<double>() == 3, "MNIST");
  bool refused = false;
  try { data::datasets::MNIST train(argv[1]); } catch (const c10::Error& error) { refused = std::string(error.what()).find("train-images") != std::string::npos; }
  holds(refused, "a file that is not there");
  std::cout << "end" << std::endl;
}
