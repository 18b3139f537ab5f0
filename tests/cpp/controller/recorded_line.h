// A node's line that keeps what is said on it, and a hello to begin one with.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/node_line.h"
#include "controller/protocol.h"

namespace square::test {

struct RecordedLine final : controller::NodeLine {
  using Event = v1::ControllerEvent::EventCase;

  void send(std::shared_ptr<const v1::ControllerEvent> event) override {
    switch (event->event_case()) {
      case Event::kWelcome:
        said.emplace_back("welcome");
        version = event->welcome().protocol_version();
        break;
      case Event::kAddress:
        said.push_back(fmt::format("{} is at {}", event->address().peer(), event->address().address()));
        break;
      case Event::kPlan:
        said.push_back(fmt::format("plan {}", event->plan().epoch()));
        parts.push_back(event->plan());
        break;
      case Event::kSignedPlan: said.emplace_back("a signed plan"); break;
      case Event::kActivate: said.push_back(fmt::format("activate {}", event->activate().epoch())); break;
      case Event::kGone:
        said.push_back(fmt::format("{} is gone: {}", event->gone().peer(), event->gone().reason()));
        gone.push_back(event->gone());
        break;
      case Event::kClosed:
        said.push_back(fmt::format("{} {} is closed", event->closed().group(), event->closed().number()));
        break;
      case Event::kRevoked:
        said.push_back(fmt::format("{} are revoked", event->revoked().names_size()));
        break;
      case Event::kGiven: given.push_back(event->given()); break;
      case Event::kUnplanned: said.push_back("unplanned: " + event->unplanned().reason()); break;
      case Event::kLook: said.push_back("look for " + event->look().peer()); break;
      case Event::kExamine: said.push_back(fmt::format("examine {}", event->examine().number())); break;
      case Event::EVENT_NOT_SET: break;
    }
  }
  void close(Status why, bool /*at_once*/) override { reason = std::move(why); }

  // What was said since the last call.
  std::vector<std::string> heard() { return std::exchange(said, {}); }

  std::vector<std::string> said;
  std::vector<v1::PlanPart> parts;  // of plans
  std::vector<v1::Gone> gone{};
  std::vector<v1::Given> given{};
  std::uint32_t version = 0;  // of the welcome
  Status reason;              // of the end, if there was one
};

using Said = std::vector<std::string>;

inline v1::Hello hello_of(const std::string& node, std::uint64_t incarnation, const std::string& address) {
  v1::Hello hello;
  hello.set_protocol_version(controller::kControlProtocolVersion);
  hello.set_node(node);
  hello.set_incarnation(incarnation);
  hello.set_address(address);
  return hello;
}

}  // namespace square::test
