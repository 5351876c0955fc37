// What std::terminate is called for. Built by the tests.
#include <stdexcept>
#include <string>

struct Unusual {};

static void throw_error() { throw std::runtime_error("the index is empty"); }

extern "C" void uncaught_exception() noexcept { throw_error(); }
extern "C" void uncaught_object() noexcept { throw Unusual(); }
extern "C" int caught_exception() {
  try {
    throw_error();
  } catch (const std::exception &error) {
    return (int)std::string(error.what()).size();
  }
  return 0;
}
