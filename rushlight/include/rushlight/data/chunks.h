// Datasets that are read a chunk at a time: preloading threads read chunks and keep batches of their examples ready.
#pragma once
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include <rushlight/data/datasets.h>
#include <rushlight/data/samplers.h>
#include <rushlight/data/workers.h>

namespace torch::data::datasets {

// Reads chunks by their number. With several preloaders `read_chunk` is called by several threads at once.
template <class Single, class Chunk = std::vector<Single>>
class ChunkDataReader {
 public:
  using ExampleType = Single;
  using ChunkType = Chunk;
  using BatchType = Chunk;
  virtual ~ChunkDataReader() = default;
  virtual Chunk read_chunk(size_t chunk_index) = 0;
  virtual size_t chunk_count() = 0;
  virtual void reset() = 0;      // before each walk, when no preloader reads
};

struct ChunkDatasetOptions {
  ChunkDatasetOptions() = delete;
  ChunkDatasetOptions(size_t preloader_count, size_t batch_size, size_t cache_size = 2048, size_t cross_chunk_shuffle_count = 1)
      : preloader_count_(preloader_count), batch_size_(batch_size), cache_size_(cache_size), cross_chunk_shuffle_count_(cross_chunk_shuffle_count) {
    TORCH_CHECK(preloader_count_ > 0, "ChunkDatasetOptions: expected at least one preloader, got a preloader_count of 0");
    TORCH_CHECK(batch_size_ > 0, "ChunkDatasetOptions: expected a batch_size above 0");
    TORCH_CHECK(cache_size_ > 0, "ChunkDatasetOptions: expected a cache_size above 0");
    TORCH_CHECK(cache_size_ >= batch_size_, "ChunkDatasetOptions: expected a cache_size that holds a batch of ", batch_size_, ", got ", cache_size_);
    TORCH_CHECK(cross_chunk_shuffle_count_ > 0, "ChunkDatasetOptions: expected a cross_chunk_shuffle_count above 0");
  }
#define RUSHLIGHT_OPTION(name)                                                             \
  ChunkDatasetOptions& name(size_t value) { name##_ = value; return *this; }               \
  const size_t& name() const noexcept { return name##_; }                                  \
  size_t& name() noexcept { return name##_; }                                              \
  size_t name##_
  RUSHLIGHT_OPTION(preloader_count);               // threads that read
  RUSHLIGHT_OPTION(batch_size);
  RUSHLIGHT_OPTION(cache_size);                    // examples kept ready; the chunk that goes beyond is kept whole
  RUSHLIGHT_OPTION(cross_chunk_shuffle_count);     // chunks whose examples are mixed
#undef RUSHLIGHT_OPTION
};

namespace detail {

// Batches on their way from preloaders to whoever asks for them. Nobody waits here with the interpreter lock held.
template <class Batch>
class ReadyBatches {
 public:
  ReadyBatches(const ChunkDatasetOptions& options, size_t producers) : size_(options.batch_size()), most_(options.cache_size()), producers_(producers) {}

  // The next batch, a short one at the end, nothing after it; WorkerException with what a preloader threw.
  std::optional<Batch> take() {
    Piece piece;
    ::rushlight::without_lock([&] {
      std::unique_lock<std::mutex> guard(mutex_);
      there_.wait(guard, [this] { return stopped_ || !ready_.empty() || !producers_; });
      if (!ready_.empty()) {
        piece = std::move(ready_.front());
        ready_.pop_front();
      } else if (!stopped_ && open_) {
        piece.batch = std::move(open_);
        open_.reset();
      }
      if (piece.batch) kept_ -= piece.batch->size();
    });
    room_.notify_all();
    if (piece.error) throw WorkerException(piece.error, "a preloader of the chunk dataset failed");
    return std::move(piece.batch);
  }

  // A chunk's examples in this order; waits for room, and drops them once the walk was stopped.
  template <class Chunk>
  void add(Chunk chunk, const std::vector<size_t>& order) {
    std::unique_lock<std::mutex> guard(mutex_);
    room_.wait(guard, [this] { return stopped_ || kept_ < most_; });
    if (stopped_) return;
    for (size_t i : order) {
      if (!open_) open_.emplace(), open_->reserve(size_);
      if constexpr (std::is_copy_constructible_v<std::decay_t<decltype(chunk[i])>>) open_->push_back(chunk[i]);   // a sampler may choose it twice
      else open_->push_back(std::move(chunk[i]));
      ++kept_;
      if (open_->size() < size_) continue;
      ready_.push_back({std::move(open_), nullptr});
      open_.reset();
    }
    there_.notify_all();
  }
  void add(std::exception_ptr error) {
    std::lock_guard<std::mutex> guard(mutex_);
    ready_.push_back({std::nullopt, std::move(error)});
    there_.notify_all();
  }
  void producer_ends() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!--producers_) there_.notify_all();
  }
  void stop() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    there_.notify_all();
  }
  bool is_stopped() {
    std::lock_guard<std::mutex> guard(mutex_);
    return stopped_;
  }

 private:
  struct Piece {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  const size_t size_, most_;
  size_t producers_, kept_ = 0;      // preloaders at work; examples in `ready_` and `open_`
  bool stopped_ = false;
  std::deque<Piece> ready_;
  std::optional<Batch> open_;        // not full yet
  std::mutex mutex_;
  std::condition_variable there_, room_;
};

}  // namespace detail

// The chunks in one sampler's order, the examples of each in another's. One object for all workers: make_shared_dataset.
template <class ChunkReader, class ChunkSampler = samplers::RandomSampler, class ExampleSampler = samplers::RandomSampler>
class ChunkDataset final : public StatefulDataset<ChunkDataset<ChunkReader, ChunkSampler, ExampleSampler>, typename ChunkReader::ChunkType, size_t> {
 public:
  using UnwrappedBatchType = typename ChunkReader::ChunkType;
  using BatchType = std::optional<UnwrappedBatchType>;
  using BatchRequestType = size_t;
  using ChunkSamplerType = ChunkSampler;
  using ExampleSamplerType = ExampleSampler;
  using Policy = std::function<void(UnwrappedBatchType&)>;

  // The policy may change the examples of a chunk before they are put into batches.
  ChunkDataset(ChunkReader chunk_reader, ChunkSampler chunk_sampler, ExampleSampler example_sampler, ChunkDatasetOptions options, Policy preprocessing_policy = {})
      : reader_(std::move(chunk_reader)), chunk_sampler_(std::move(chunk_sampler)), example_sampler_(std::move(example_sampler)), options_(std::move(options)), policy_(std::move(preprocessing_policy)) {}
  ChunkDataset(const ChunkDataset&) = delete;
  ~ChunkDataset() override { stop(); }

  BatchType get_batch(size_t batch_size) override {
    TORCH_CHECK(ready_, "ChunkDataset: call reset() before get_batch()");
    TORCH_CHECK(batch_size == options_.batch_size(), "ChunkDataset: expected the batch size of its options, ", options_.batch_size(), ", got ", batch_size);
    return ready_->take();
  }
  BatchType get_batch() { return get_batch(options_.batch_size()); }
  std::optional<size_t> size() const override { return std::nullopt; }      // chunks say how many examples they have when they are read

  // Begins a walk anew; the first one after `load` goes on where the saved one was.
  void reset() override {
    stop();
    reader_.reset();
    if (!is_loaded_) chunk_sampler_.reset(reader_.chunk_count());
    is_loaded_ = false;
    ready_ = std::make_unique<detail::ReadyBatches<UnwrappedBatchType>>(options_, options_.preloader_count());
    for (size_t i = 0; i < options_.preloader_count(); ++i) preloaders_.emplace_back([this] { preload(); });
  }

  // Which chunks are still to come; those that were read already do not come again.
  void save(serialize::OutputArchive& archive) const override {
    auto guard = locked(chunk_mutex_);
    chunk_sampler_.save(archive);
  }
  void load(serialize::InputArchive& archive) override {
    auto guard = locked(chunk_mutex_);
    chunk_sampler_.load(archive);
    is_loaded_ = true;
  }
  ChunkSampler& chunk_sampler() { return chunk_sampler_; }

 private:
  static std::unique_lock<std::mutex> locked(std::mutex& mutex) {      // samplers take the interpreter lock inside
    std::unique_lock<std::mutex> guard(mutex, std::defer_lock);
    ::rushlight::without_lock([&guard] { guard.lock(); });
    return guard;
  }
  void stop() {
    if (!ready_) return;
    ready_->stop();
    ::rushlight::without_lock([this] { for (auto& thread : preloaders_) thread.join(); });
    preloaders_.clear();
    ready_.reset();
  }

  void preload() {
    std::vector<size_t> chosen;
    while (!ready_->is_stopped() && choose(chosen)) {
      try {
        pass_on(read(chosen));
      } catch (...) {
        ready_->add(std::current_exception());
      }
    }
    ready_->producer_ends();
  }
  bool choose(std::vector<size_t>& chosen) {
    try {
      auto guard = locked(chunk_mutex_);
      auto found = chunk_sampler_.next(options_.cross_chunk_shuffle_count());
      if (found) chosen = std::move(*found);
      return found.has_value();
    } catch (...) {      // a sampler that fails has no more chunks
      ready_->add(std::current_exception());
      return false;
    }
  }
  UnwrappedBatchType read(const std::vector<size_t>& chosen) {
    UnwrappedBatchType all = reader_.read_chunk(chosen.at(0));
    for (size_t k = 1; k < chosen.size(); ++k) {
      auto more = reader_.read_chunk(chosen[k]);
      std::move(more.begin(), more.end(), std::back_inserter(all));
    }
    if (policy_) policy_(all);
    return all;
  }
  void pass_on(UnwrappedBatchType chunk) {
    if (!chunk.size()) return;
    std::vector<size_t> order;
    {
      auto guard = locked(example_mutex_);
      example_sampler_.reset(chunk.size());
      while (order.size() < chunk.size()) {
        auto some = example_sampler_.next(chunk.size() - order.size());
        if (!some) break;
        order.insert(order.end(), some->begin(), some->end());
      }
    }
    for (size_t i : order) TORCH_CHECK_INDEX(i < chunk.size(), "ChunkDataset: the example sampler chose ", i, " of a chunk of ", chunk.size(), " examples");
    ready_->add(std::move(chunk), order);
  }

  ChunkReader reader_;
  ChunkSampler chunk_sampler_;
  ExampleSampler example_sampler_;
  const ChunkDatasetOptions options_;
  const Policy policy_;
  bool is_loaded_ = false;
  mutable std::mutex chunk_mutex_, example_mutex_;      // of the samplers
  std::unique_ptr<detail::ReadyBatches<UnwrappedBatchType>> ready_;      // of one walk
  std::vector<std::thread> preloaders_;
};

}  // namespace torch::data::datasets
