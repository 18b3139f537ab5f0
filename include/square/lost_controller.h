// What a successor is told of those that it follows.
#pragma once

#include <string>

namespace square {

struct LostController {
  std::string node;  // that brought it
  // Its host refused it before another can have followed it: it leads nowhere, nor does another in its place.
  bool is_dead = false;
};

}  // namespace square
