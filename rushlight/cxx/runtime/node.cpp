// torch::autograd::Node over the core's nodes, and hooks.
#include <rushlight/node.h>

#include <unordered_map>

#include "runtime.h"

using namespace rushlight;

namespace torch::autograd {

namespace {

std::unordered_map<void*, std::weak_ptr<Node>>& living() {     // under the lock
  static auto& all = *new std::unordered_map<void*, std::weak_ptr<Node>>;
  return all;
}

std::shared_ptr<Node> node_of(PyObject* object) {
  if (object == Py_None) return nullptr;
  std::weak_ptr<Node>& known = living()[object];
  std::shared_ptr<Node> found = known.lock();
  if (!found) known = found = std::make_shared<Node>(Py_NewRef(object));
  return found;
}

Edge edge_of(PyObject* pair) {
  return {node_of(PyTuple_GET_ITEM(pair, 0)), static_cast<uint32_t>(int_from(PyTuple_GET_ITEM(pair, 1)))};
}

PyObject* py(const Node& node) { return static_cast<PyObject*>(node.object()); }
Object ask(const Node& node, const char* method) { return checked(PyObject_CallMethod(py(node), method, nullptr)); }
Object look(const Node& node, const char* attribute) { return checked(PyObject_GetAttrString(py(node), attribute)); }

PyObject* tuple_of(const variable_list& tensors) {
  Object made = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(made.get(), i, wrap(tensors[i]));
  return made.release();
}

}  // namespace

Node::Node(void* object) : object_(object) {}
Node::~Node() {
  if (!Py_IsInitialized()) return;
  Lock lock;
  auto found = living().find(object_);
  if (found != living().end() && found->second.expired()) living().erase(found);
  Py_DECREF(static_cast<PyObject*>(object_));
}
std::string Node::name() const { Lock lock; return text_from(ask(*this, "name").get()); }
uint64_t Node::sequence_nr() const { Lock lock; return PyLong_AsUnsignedLongLongMask(ask(*this, "_sequence_nr").get()); }
uint32_t Node::num_inputs() const { Lock lock; return static_cast<uint32_t>(PyTuple_GET_SIZE(look(*this, "_input_metadata").get())); }
uint32_t Node::num_outputs() const { Lock lock; return static_cast<uint32_t>(PyTuple_GET_SIZE(look(*this, "next_functions").get())); }
edge_list Node::next_edges() const {
  Lock lock;
  Object pairs = look(*this, "next_functions");
  edge_list edges;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs.get()); ++i) edges.push_back(edge_of(PyTuple_GET_ITEM(pairs.get(), i)));
  return edges;
}
Edge Node::next_edge(size_t index) const {
  edge_list edges = next_edges();
  TORCH_CHECK_INDEX(index < edges.size(), "next_edge: expected an index below ", edges.size(), ", got ", index);
  return edges[index];
}
variable_list Node::operator()(const variable_list& grads) const {
  Lock lock;
  Object args(tuple_of(grads)), result = checked(PyObject_Call(py(*this), args.get(), nullptr));
  return is_tensor(result.get()) || result.get() == Py_None ? variable_list{tensor_from(result.get())} : tensors_from(result.get());
}
void Node::add_pre_hook(std::unique_ptr<FunctionPreHook> hook) {
  Lock lock;
  Object face(function_object("pre_hook", [kept = std::shared_ptr<FunctionPreHook>(std::move(hook))](PyObject* args, PyObject*) {
    return tuple_of((*kept)(tensors_from(PyTuple_GET_ITEM(args, 0))));
  }));
  checked(PyObject_CallMethod(py(*this), "register_prehook", "O", face.get()));
}
uintptr_t Node::add_post_hook(std::unique_ptr<FunctionPostHook> hook) {
  Lock lock;
  Object face(function_object("post_hook", [kept = std::shared_ptr<FunctionPostHook>(std::move(hook))](PyObject* args, PyObject*) {
    return tuple_of((*kept)(tensors_from(PyTuple_GET_ITEM(args, 0)), tensors_from(PyTuple_GET_ITEM(args, 1))));
  }));
  Object handle = checked(PyObject_CallMethod(py(*this), "register_hook", "O", face.get()));
  return static_cast<uintptr_t>(int_from(checked(PyObject_GetAttrString(handle.get(), "id")).get()));
}
bool Node::del_post_hook(uintptr_t key) {
  Lock lock;
  Object hooks = checked(PyObject_CallMethod(py(*this), "_get_hooks", "s", "post"));
  if (hooks.get() == Py_None) return false;
  Object removed = checked(PyObject_CallMethod(hooks.get(), "pop", "KO", static_cast<unsigned long long>(key), Py_None));
  return removed.get() != Py_None;
}

namespace impl {

Edge gradient_edge(const Variable& tensor) {
  TORCH_CHECK(tensor.defined(), "gradient_edge: the tensor is undefined");
  Lock lock;
  Object pair = checked(PyObject_CallMethod(module("rushlight._C"), "_gradient_edge", "O", static_cast<PyObject*>(tensor.object())));
  return edge_of(pair.get());
}
std::shared_ptr<Node> grad_accumulator(const Variable& tensor) {
  return tensor.is_leaf() ? gradient_edge(tensor).function : nullptr;
}

}  // namespace impl
}  // namespace torch::autograd

namespace at {
std::shared_ptr<torch::autograd::Node> Tensor::grad_fn() const {
  TORCH_CHECK(defined(), "grad_fn: the tensor is undefined");
  Lock lock;
  return torch::autograd::node_of(checked(PyObject_GetAttrString(static_cast<PyObject*>(object()), "grad_fn")).get());
}
}  // namespace at
