// What a hand-written derivative did, kept to be done again without Python. A rule is written with ops and decides by
// types, sizes and numbers: for the same ones it makes the same calls. They are written down the second time such
// arguments are met, and made by the core from then on. Everything here holds the interpreter lock.
#pragma once
#include "call.h"
#include "table.h"
#include "tape.h"

namespace rl {

// A rule about to be called.
struct RuleCall {
  Overload* op;
  TapeInfo* info;
  Node* node;
  PyObject** args;
  size_t count;
  uint64_t needs;                // which gradients are asked for, by tensor parameter
};

struct RuleKey : KeyBuilder {
  uint64_t hash = 0;
  bool is_kept = false;          // what the rule does is to be written down under this key
};

// The calls that the rule made for such arguments (new reference), or null: Python has to be asked.
PyObject* find_transcript(const RuleCall& call, RuleKey& key);
// Makes them: new references into `out`, by edge. False with an exception set.
bool repeat_transcript(PyObject* transcript, const RuleCall& call, PyObject** out);

// The thread's calls are written down while this lives.
class Noting {
 public:
  explicit Noting(const RuleCall& call);
  ~Noting();
  Noting(const Noting&) = delete;
  void keep(const RuleKey& key, PyObject** out);   // the rule is done, and these are its gradients

 private:
  const RuleCall& call;
  struct Notes* notes;
  struct Notes* outer;
  int collected;
};

// While `tls.noting`: what makes tensors says so here; what looks at elements, writes them by itself or asks what no key
// holds sets it to 0, and the rule is called by Python as before.
PyObject* note_call(Overload* op, PyObject** args, uint32_t keys);   // makes the call
void note_fresh(Tensor* made);                      // memory nobody wrote to
void note_alias(Tensor* base, Tensor* made);        // the same memory in another geometry
// A function that makes a tensor of nothing but its arguments, and was run while noting paused.
void note_function(PyObject* (*function)(PyObject*, PyObject*), PyObject* args, PyObject* made);

// A plan that Python ran by itself, while noting paused.
void note_plan(PlanObject* plan, PyObject* inputs, PyObject* result);

struct NotingPause {
  uint32_t previous = thread_state().noting;
  NotingPause() { thread_state().noting = 0; }
  ~NotingPause() { thread_state().noting = previous; }
};

void forget_rules();                                // transcripts made so far no longer apply
void forget_transcripts(Overload* op);

int init_transcript(PyObject* module);

}  // namespace rl
