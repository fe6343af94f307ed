// Examples, and what is done to batches of them.
#pragma once
#include <rushlight/functions.h>

namespace torch::data {

namespace example {
struct NoTarget {};
}  // namespace example

template <class Data = at::Tensor, class Target = at::Tensor>
struct Example {
  using DataType = Data;
  using TargetType = Target;
  Example() = default;
  Example(Data data, Target target) : data(std::move(data)), target(std::move(target)) {}
  Data data;
  Target target;
};
template <class Data>
struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;
  Example() = default;
  Example(Data data) : data(std::move(data)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }
  Data data;
};
using TensorExample = Example<at::Tensor, example::NoTarget>;

namespace transforms {

template <class Input, class Output>
class BatchTransform {
 public:
  using InputBatchType = Input;
  using OutputBatchType = Output;
  virtual ~BatchTransform() = default;
  virtual Output apply_batch(Input batch) = 0;
};

// One example at a time.
template <class Input, class Output>
class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
 public:
  using InputType = Input;
  using OutputType = Output;
  virtual Output apply(Input input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> batch) override {
    std::vector<Output> made;
    made.reserve(batch.size());
    for (Input& one : batch) made.push_back(apply(std::move(one)));
    return made;
  }
};

// Many examples become one.
template <class T, class BatchType = std::vector<T>>
using Collation = BatchTransform<BatchType, T>;

template <class Input, class Output = Input>
class BatchLambda : public BatchTransform<Input, Output> {
 public:
  explicit BatchLambda(std::function<Output(Input)> f) : f_(std::move(f)) {}
  Output apply_batch(Input batch) override { return f_(std::move(batch)); }

 private:
  std::function<Output(Input)> f_;
};
template <class T, class BatchType = std::vector<T>>
using Collate = BatchLambda<BatchType, T>;
template <class Input, class Output = Input>
class Lambda : public Transform<Input, Output> {
 public:
  explicit Lambda(std::function<Output(Input)> f) : f_(std::move(f)) {}
  Output apply(Input input) override { return f_(std::move(input)); }

 private:
  std::function<Output(Input)> f_;
};

// Of the data alone; targets pass.
template <class Target = at::Tensor>
class TensorTransform : public Transform<Example<at::Tensor, Target>, Example<at::Tensor, Target>> {
 public:
  virtual at::Tensor operator()(at::Tensor input) = 0;
  Example<at::Tensor, Target> apply(Example<at::Tensor, Target> input) override {
    input.data = (*this)(std::move(input.data));
    return input;
  }
};
template <class Target = at::Tensor>
class TensorLambda : public TensorTransform<Target> {
 public:
  explicit TensorLambda(std::function<at::Tensor(at::Tensor)> f) : f_(std::move(f)) {}
  at::Tensor operator()(at::Tensor input) override { return f_(std::move(input)); }

 private:
  std::function<at::Tensor(at::Tensor)> f_;
};
// (data - mean) / stddev, by channels where several are given.
template <class Target = at::Tensor>
class Normalize : public TensorTransform<Target> {
 public:
  Normalize(ArrayRef<double> mean, ArrayRef<double> stddev) : mean(by_channel(mean)), stddev(by_channel(stddev)) {}
  at::Tensor operator()(at::Tensor input) override { return input.sub(mean).div(stddev); }
  at::Tensor mean, stddev;

 private:
  static at::Tensor by_channel(ArrayRef<double> values) { return at::tensor(values.vec(), c10::kFloat).view({-1, 1, 1}); }
};

template <class T = Example<>>
struct Stack;
template <>
struct Stack<Example<>> : Collation<Example<>> {
  Example<> apply_batch(std::vector<Example<>> examples) override {
    std::vector<at::Tensor> data, targets;
    for (auto& one : examples) data.push_back(std::move(one.data)), targets.push_back(std::move(one.target));
    return {at::stack(data), at::stack(targets)};
  }
};
template <>
struct Stack<TensorExample> : Collation<TensorExample> {
  TensorExample apply_batch(std::vector<TensorExample> examples) override {
    std::vector<at::Tensor> data;
    for (auto& one : examples) data.push_back(std::move(one.data));
    return at::stack(data);
  }
};

}  // namespace transforms
}  // namespace torch::data
