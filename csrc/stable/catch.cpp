// Calls of code that may throw: what is thrown ends here, as a kind and its words.
//
// Alone in its file: it needs the C++ runtime that extensions use (libstdc++), the rest needs none.
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "stable.h"

namespace rl::stable {

static Caught told(int kind, const char* text) { return {kind, strdup(text)}; }

template <class Call>
static Caught caught(Call call) {
  try {
    call();
    return {kNothing, nullptr};
  } catch (abi::__forced_unwind&) {      // the end of a thread is no error, and must go on
    throw;
  } catch (const std::bad_alloc& e) {
    return told(kMemoryError, e.what());
  } catch (const std::out_of_range& e) {
    return told(kIndexError, e.what());
  } catch (const std::logic_error& e) {  // invalid_argument, domain_error, length_error
    return told(kValueError, e.what());
  } catch (const std::overflow_error& e) {
    return told(kOverflowError, e.what());
  } catch (const std::range_error& e) {
    return told(kValueError, e.what());
  } catch (const std::exception& e) {
    return told(kRuntimeError, e.what());
  } catch (...) {
    return told(kUnknownThrown, "something that is no std::exception");
  }
}

Caught call_kernel(BoxedKernel kernel, Value* stack, uint64_t num_args, uint64_t num_results) {
  return caught([=] { kernel(stack, num_args, num_results); });
}

Caught call_range(void (*function)(int64_t, int64_t, void*), int64_t begin, int64_t end, void* context) {
  return caught([=] { function(begin, end, context); });
}

}  // namespace rl::stable
