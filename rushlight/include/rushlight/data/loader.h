// make_data_loader: batches of a dataset in a sampler's order, made here or by threads.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

#include <rushlight/data/chunks.h>

namespace torch::data {

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}
#define RUSHLIGHT_OPTION(type, name, ...)                                                  \
  DataLoaderOptions& name(type value) { name##_ = std::move(value); return *this; }        \
  const type& name() const noexcept { return name##_; }                                    \
  type name##_ = __VA_ARGS__
  RUSHLIGHT_OPTION(size_t, batch_size, 1);
  RUSHLIGHT_OPTION(size_t, workers, 0);                                 // threads; none: batches are made where they are asked for
  RUSHLIGHT_OPTION(std::optional<size_t>, max_jobs, std::nullopt);      // batches under way; twice the workers
  RUSHLIGHT_OPTION(std::optional<std::chrono::milliseconds>, timeout, std::nullopt);
  RUSHLIGHT_OPTION(bool, enforce_ordering, true);
  RUSHLIGHT_OPTION(bool, drop_last, false);                             // leaves out a last batch that is not full
#undef RUSHLIGHT_OPTION
};

template <class Dataset, class Sampler>
class DataLoader {
 public:
  using BatchRequestType = typename Sampler::BatchRequestType;
  using Given = typename Dataset::BatchType;
  static constexpr bool is_stateful = Dataset::is_stateful;
  template <class T>
  struct Inner { using type = T; };
  template <class T>
  struct Inner<std::optional<T>> { using type = T; };
  using BatchType = typename Inner<Given>::type;

  DataLoader(Dataset dataset, Sampler sampler, DataLoaderOptions options)
      : options_(std::move(options)), sampler_(std::move(sampler)), dataset_(std::move(dataset)) {
    TORCH_CHECK_VALUE(options_.batch_size() > 0, "DataLoader: expected a batch size above 0");
    room_ = options_.max_jobs().value_or(2 * options_.workers());
    TORCH_CHECK_VALUE(!options_.workers() || room_ > 0, "DataLoader: expected max_jobs above 0");
    for (size_t i = 0; i < options_.workers(); ++i) threads_.emplace_back([this] { work(); });
  }
  DataLoader(const DataLoader&) = delete;
  ~DataLoader() { join(); }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    using pointer = BatchType*;
    using reference = BatchType&;
    Iterator() = default;
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    BatchType& operator*() const { return *batch_; }
    BatchType* operator->() const { return &*batch_; }
    Iterator& operator++() {
      TORCH_CHECK(loader_, "DataLoader: the iterator is past the end");
      batch_ = loader_->next();
      if (!batch_) loader_ = nullptr;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.loader_ == b.loader_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) { return !(a == b); }

   private:
    DataLoader* loader_ = nullptr;
    mutable std::optional<BatchType> batch_;
  };
  Iterator begin() {
    reset();
    return Iterator(this);
  }
  Iterator end() { return {}; }

  // Ends the workers; the loader gives no more batches.
  void join() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (joined_) return;
      joined_ = true;
      jobs_.clear();
    }
    work_.notify_all();
    ::rushlight::without_lock([this] { for (auto& thread : threads_) thread.join(); });
  }
  const DataLoaderOptions& options() const noexcept { return options_; }

 private:
  struct Result {
    std::optional<BatchType> batch;
    std::exception_ptr error;
  };

  void reset() {
    TORCH_CHECK(!joined_, "DataLoader: it was joined, and gives no more batches");
    while (under_way_) take();      // of an earlier walk that was left
    if constexpr (is_stateful) dataset_.reset();
    sampler_.reset();
    asked_ = given_ = 0;
    ended_ = false;
  }

  std::optional<BatchRequestType> request() {
    if (ended_) return std::nullopt;
    auto found = sampler_.next(options_.batch_size());
    if (!found || (options_.drop_last() && found->size() < options_.batch_size())) {
      ended_ = true;
      return std::nullopt;
    }
    return found;
  }

  std::optional<BatchType> next() {
    if (!options_.workers()) {
      auto wanted = request();
      if (!wanted) return std::nullopt;
      return dataset_.get_batch(std::move(*wanted));
    }
    for (;;) {
      fill();
      if (!under_way_) return std::nullopt;
      Result result = take();
      if (result.error) throw WorkerException(result.error);
      if (result.batch) return std::move(result.batch);
      ended_ = true;      // a stateful dataset is at its end
    }
  }

  void fill() {
    while (under_way_ < room_) {
      auto wanted = request();
      if (!wanted) return;
      {
        std::lock_guard<std::mutex> guard(mutex_);
        jobs_.emplace_back(asked_++, std::move(*wanted));
      }
      ++under_way_;
      work_.notify_one();
    }
  }

  // The next result in order, or the first there is.
  Result take() {
    std::optional<Result> found;
    ::rushlight::without_lock([&] {
      std::unique_lock<std::mutex> guard(mutex_);
      auto is_there = [this] { return options_.enforce_ordering() ? results_.count(given_) > 0 : !results_.empty(); };
      if (!options_.timeout()) done_.wait(guard, is_there);
      else if (!done_.wait_for(guard, *options_.timeout(), is_there)) return;
      auto first = options_.enforce_ordering() ? results_.find(given_) : results_.begin();
      found = std::move(first->second);
      results_.erase(first);
    });
    TORCH_CHECK(found, "DataLoader: no batch came within ", options_.timeout()->count(), " milliseconds");
    ++given_;
    --under_way_;
    return std::move(*found);
  }

  void work() {
    std::optional<Dataset> own;
    if constexpr (!is_stateful) own.emplace(dataset_);
    for (;;) {
      std::optional<std::pair<size_t, BatchRequestType>> job;
      {
        std::unique_lock<std::mutex> guard(mutex_);
        work_.wait(guard, [this] { return joined_ || !jobs_.empty(); });
        if (joined_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      Result result;
      try {
        result.batch = (own ? *own : dataset_).get_batch(std::move(job->second));
      } catch (...) {
        result.error = std::current_exception();
      }
      {
        std::lock_guard<std::mutex> guard(mutex_);
        results_.emplace(job->first, std::move(result));
      }
      done_.notify_all();
    }
  }

  DataLoaderOptions options_;
  Sampler sampler_;
  Dataset dataset_;                 // of this thread; workers copy it, or share one with a state
  size_t room_ = 0, asked_ = 0, given_ = 0, under_way_ = 0;
  bool ended_ = false, joined_ = false;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<std::pair<size_t, BatchRequestType>> jobs_;
  std::map<size_t, Result> results_;
  std::vector<std::thread> threads_;
};
template <class Dataset, class Sampler>
using StatelessDataLoader = DataLoader<Dataset, Sampler>;

template <class Dataset, class Sampler>
std::enable_if_t<!Dataset::is_stateful, std::unique_ptr<DataLoader<Dataset, Sampler>>> make_data_loader(Dataset dataset, Sampler sampler, DataLoaderOptions options) {
  return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), std::move(sampler), std::move(options));
}
template <class Sampler = samplers::RandomSampler, class Dataset>
std::enable_if_t<!Dataset::is_stateful && std::is_constructible_v<Sampler, size_t>, std::unique_ptr<DataLoader<Dataset, Sampler>>> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  const auto size = dataset.size();
  TORCH_CHECK(size, "make_data_loader: the dataset does not know its size, which the sampler needs. Give a sampler.");
  return make_data_loader(std::move(dataset), Sampler(*size), std::move(options));
}
// A dataset with a state is asked for its next batch of the options' size, until it gives none.
struct EndlessSampler : samplers::Sampler<samplers::BatchSize> {
  using Sampler::reset;
  void reset(std::optional<size_t>) override {}
  std::optional<samplers::BatchSize> next(size_t batch_size) override { return samplers::BatchSize(batch_size); }
  void save(serialize::OutputArchive&) const override {}
  void load(serialize::InputArchive&) override {}
};
template <class Dataset>
std::enable_if_t<Dataset::is_stateful, std::unique_ptr<DataLoader<Dataset, EndlessSampler>>> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<DataLoader<Dataset, EndlessSampler>>(std::move(dataset), EndlessSampler(), std::move(options));
}

}  // namespace torch::data
