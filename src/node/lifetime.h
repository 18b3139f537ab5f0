// What runs later must not touch a part that is gone. node/context.h states the rule.
#pragma once

#include <memory>
#include <utility>

namespace square {

// A member of every part that has something run later. Made and destroyed on the strand.
class Lifetime {
 public:
  Lifetime() = default;
  ~Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  // `task`, which does nothing once the part is gone. Any thread may call this, and may destroy what
  // it gives; only the strand may run it.
  template <typename Task>
  [[nodiscard]] auto bind(Task task) const {
    return [alive = std::weak_ptr<const char>(token_),
            task = std::move(task)]<typename... Arguments>(Arguments&&... arguments) mutable {
      if (!alive.expired()) task(std::forward<Arguments>(arguments)...);
    };
  }

 private:
  std::shared_ptr<const char> token_ = std::make_shared<const char>();
};

}  // namespace square
