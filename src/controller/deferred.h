// What is decided under a lock and must run outside of it.
#pragma once

#include <functional>
#include <vector>

namespace square::controller {

using Deferred = std::vector<std::function<void()>>;

}  // namespace square::controller
