// Questions to all nodes, and what they answer.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/attendance.h"
#include "square/status.h"
#include "square/units.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// At the same time.
inline constexpr std::size_t kMaxInquiries = 8;
// What nodes may be given to answer.
inline constexpr Duration kMinInquiryTime = std::chrono::seconds(1);
inline constexpr Duration kMaxInquiryTime = std::chrono::minutes(5);
inline constexpr std::size_t kMaxReportBytes = std::size_t{256} << 10U;

// Thread-safe. An inquiry is over when all who are connected have answered, or when its time is.
// Whom alarms call is shared.
class Inquiries : public std::enable_shared_from_this<Inquiries> {
 public:
  using Reply = std::function<void(const Result<v1::ExamineResponse>&)>;

  // Asks all who are connected. Calls `reply` once, from any thread. Errors: RESOURCE_EXHAUSTED for too
  // many at the same time, UNAVAILABLE once stop() was called.
  void begin(const std::vector<Attendant>& nodes, Duration time, Reply reply);
  // Dropped where nobody waits for it.
  void answer(const std::string& node, const v1::Examined& examined);
  // Fails what is pending.
  void stop();

 private:
  struct Inquiry {
    v1::ExamineResponse response;
    std::size_t missing = 0;
    std::int64_t asked_nanoseconds = 0;  // by the wall clock
    Reply reply;
    grpc::Alarm alarm;
  };

  void end(std::uint64_t number);

  std::mutex mutex_;
  bool is_stopped_ = false;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Inquiry>> open_;
};

}  // namespace square::controller
