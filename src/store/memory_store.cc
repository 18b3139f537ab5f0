#include <mutex>
#include <random>

#include "store/store.h"

namespace square::store {
namespace {

StoreId draw_id() {
  std::random_device device;
  return (StoreId{device()} << 32U) | device();
}

class MemoryStore final : public Store {
 public:
  [[nodiscard]] StoreId id() const override { return id_; }
  [[nodiscard]] std::uint64_t term() const override { return 1; }

  Result<std::map<std::string, std::string>> read() override {
    const std::lock_guard lock(mutex_);
    return records_;
  }

  Status write(const std::vector<Write>& writes) override {
    const std::lock_guard lock(mutex_);
    for (const Write& one : writes) {
      if (one.value) {
        records_[one.key] = *one.value;
      } else {
        records_.erase(one.key);
      }
    }
    return {};
  }

 private:
  const StoreId id_ = draw_id();
  std::mutex mutex_;
  std::map<std::string, std::string> records_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace square::store
