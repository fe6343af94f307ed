// Nodes of the graph that a backward pass walks, as C++ sees them, and hooks on them.
#pragma once
#include <rushlight/tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::autograd {

using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = std::vector<at::Tensor>;

class Node;

// Where a gradient goes: the output `input_nr` of the call that `function` undoes.
struct Edge {
  Edge() = default;
  Edge(std::shared_ptr<Node> function, uint32_t input_nr) : function(std::move(function)), input_nr(input_nr) {}
  bool is_valid() const { return function != nullptr; }
  bool operator==(const Edge& o) const { return function == o.function && input_nr == o.input_nr; }
  bool operator!=(const Edge& o) const { return !(*this == o); }
  std::shared_ptr<Node> function;
  uint32_t input_nr = 0;
};
using edge_list = std::vector<Edge>;

// What a node is given may be changed before it runs, and what it gives after: return the gradients as they shall be.
struct FunctionPreHook {
  virtual ~FunctionPreHook() = default;
  virtual variable_list operator()(const variable_list& grads) = 0;
};
struct FunctionPostHook {
  virtual ~FunctionPostHook() = default;
  virtual variable_list operator()(const variable_list& outputs, const variable_list& inputs) = 0;
};

// A node of the core's graph. There is one object for each while anybody holds it, so pointers compare as nodes do.
class Node {
 public:
  explicit Node(void* object);               // takes the reference over
  Node(const Node&) = delete;
  virtual ~Node();
  std::string name() const;
  uint64_t sequence_nr() const;
  uint32_t num_inputs() const;               // gradients that it is given
  uint32_t num_outputs() const;              // and gives
  edge_list next_edges() const;
  Edge next_edge(size_t index) const;
  variable_list operator()(const variable_list& grads) const;
  void add_pre_hook(std::unique_ptr<FunctionPreHook> hook);
  uintptr_t add_post_hook(std::unique_ptr<FunctionPostHook> hook);
  bool del_post_hook(uintptr_t key);         // whether it was there
  void* object() const { return object_; }

 private:
  void* object_;
};

namespace impl {
std::shared_ptr<Node> grad_accumulator(const Variable& tensor);     // of a leaf that requires a gradient; else null
Edge gradient_edge(const Variable& tensor);
inline bool is_leaf(const Variable& tensor) { return tensor.is_leaf(); }
}  // namespace impl

}  // namespace torch::autograd
