// Lines of the data flow as groups of two: each message takes the ways that the plan gives it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ps/data/data_lines.h"
#include "square/member_host.h"

namespace square::ps {

class CommunicatorLines final : public DataLines {
 public:
  static constexpr const char* kTenant = "parameter-servers";
  // One message; the master ends what takes too long before that.
  static constexpr Duration kMessageTime = std::chrono::minutes(30);

  // `node` must outlive it.
  explicit CommunicatorLines(MemberHost& node) : node_(node) {}

  Result<std::shared_ptr<DataLine>> open(const v1::PsTransfer& transfer) override;
  void stop() override;

 private:
  class Line;
  struct Entry {
    std::mutex mutex;  // while it is being opened
    std::shared_ptr<Line> line;
  };
  // Lines between the two that are not used any more are ended.
  std::shared_ptr<Entry> entry(const v1::PsTransfer& transfer);
  Result<std::shared_ptr<Line>> make(const v1::PsTransfer& transfer);

  MemberHost& node_;
  std::mutex mutex_;
  bool is_stopped_ = false;
  // By worker and server: the newest line's name, and the line.
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::shared_ptr<Entry>>> entries_;
};

}  // namespace square::ps
