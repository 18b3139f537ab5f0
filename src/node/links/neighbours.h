// A node's neighbours: connections to them, both ends of their links, and those that are lost.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/broken_links.h"
#include "node/links/departed_links.h"
#include "node/links/flush.h"
#include "node/links/incarnations.h"
#include "node/links/incoming_link.h"
#include "node/links/lost_links.h"
#include "node/links/outgoing_link.h"
#include "node/links/prober.h"
#include "node/links/refusals.h"
#include "node/plan/installed_plan.h"
#include "square/status.h"
#include "square/transport.h"
#include "transport/pacing/pacer.h"

namespace square {

struct NodeMetrics;

// Waits between attempts to open a link; they go on while a plan needs it.
inline constexpr Duration kMinRedialWait = std::chrono::milliseconds(50);
inline constexpr Duration kMaxRedialWait = std::chrono::seconds(1);
// A neighbour whose link to this node is lost comes back by itself, or is dialled after so long.
inline constexpr Duration kComeBackTime = std::chrono::milliseconds(500);
// Used on the node's strand.
class Neighbours {
 public:
  using OutgoingLinks = DepartedLinks::Links;

  // What the rest of the node does about links.
  class Host {
   public:
    virtual ~Host() = default;
    // Sources with blocks for the stream, which starts here, put them on it.
    virtual void fill_sources(const StreamKey& key) = 0;
    virtual void on_neighbour_up(const std::string& peer) = 0;
    // A link that was lost, of which this node is the `end`, is up again.
    virtual void on_link_back(LinkEnd end, const std::string& peer) = 0;
    // Its process is no more, and no link of it is up.
    virtual void on_neighbour_gone(const std::string& peer) = 0;
    // Another process has its name, whatever is said of the link from now on.
    virtual void on_neighbour_replaced(const std::string& peer) = 0;
  };

  Neighbours(std::shared_ptr<NodeContext> node, Host& host);

  // What a connection is the end of: the tail of `outgoing`, or the head of `incoming`.
  struct Connection {
    OutgoingLink* outgoing = nullptr;
    IncomingLink* incoming = nullptr;
    std::optional<Duration> round_trip{};  // as the transport measured it last
    std::size_t channels = 1;              // that it was told to use

    [[nodiscard]] const std::string& peer() const { return outgoing ? outgoing->peer() : incoming->peer(); }
  };
  // None for a connection that is not, or is no more.
  [[nodiscard]] const Connection* find(LinkHandle link) const;
  [[nodiscard]] OutgoingLinks& outgoing() { return outgoing_; }
  [[nodiscard]] Flush& flush() { return flush_; }
  [[nodiscard]] const LostLinks& lost() const { return lost_; }
  // Those that are to be avoided.
  [[nodiscard]] BrokenLinks& broken() { return broken_; }
  [[nodiscard]] const BrokenLinks& broken() const { return broken_; }

  // Links and streams that the collective needs; those of one that goes.
  void open(const std::shared_ptr<const InstalledCollective>& collective);
  void close(const InstalledCollective& collective);
  void install(const InstalledPlan& plan);
  // Where the process that is there is another than before, that one is no more.
  void set_address(const std::string& peer, const std::string& address, std::uint64_t incarnation = 0);
  // Somebody says that its process is no more; `finished` where it left in order. While a link of it is up
  // here and it is not suspected that is not believed; when it is, or the last link is lost, it is.
  void set_gone(const std::string& peer, const std::string& reason,
                std::optional<FinishedOperations> finished = std::nullopt);

  // What the transport says.
  void on_link_up(LinkHandle link, LinkEnd end, const std::string& peer);
  void on_link_down(LinkHandle link, const Status& reason);
  void on_sent(LinkHandle link);
  void on_round_trip(LinkHandle link, Duration round_trip);
  void on_capacity(LinkHandle link, double capacity_bps, bool is_probed);
  void on_suspicion(LinkHandle link, bool is_suspected);
  // A frame has come from it.
  void note_heard(const std::string& peer);
  // The controller asks whether it is there: it is dialled, whether or not a plan needs it.
  void look_for(const std::string& peer);

  // To a neighbour that sends data here, and ahead of all data to one that data is sent to. Dropped
  // if there is no such link, or it is down.
  void answer(const std::string& peer, Frame frame);
  void send_ahead(const std::string& peer, Frame frame);
  void drop_operation(SessionId session, OperationId operation);

  // Whether nothing is in the transport's hands, or should be there before the node stops.
  [[nodiscard]] bool is_idle() const;
  // What only links know.
  void describe(NodeMetrics& metrics) const;

 private:
  struct Dial {
    Duration wait = kMinRedialWait;
    bool is_open = false;  // an attempt or a connection exists
  };

  OutgoingLink& outgoing_to(const std::string& peer);
  IncomingLink& incoming_from(const std::string& peer);
  void open_stream(const std::shared_ptr<const InstalledCollective>& collective, const LocalStream& stream);
  void dial(const std::string& peer);
  void redial_later(const std::string& peer);
  // As many as carry the link's rate over its round trip.
  void choose_channels(LinkHandle link, Connection& connection);
  void tail_down(OutgoingLink& link, const Status& reason);
  void head_down(IncomingLink& link, const Status& reason);
  void tell_lost(LinkEnd end, const std::string& peer, const Status& reason);
  void check_told_gone(const std::string& peer);
  // As it was announced, where it was.
  void take_for_gone(const std::string& peer, const std::string& reason = "");
  [[nodiscard]] bool is_suspected(const std::string& peer) const;
  void close_links(const std::string& peer);
  [[nodiscard]] bool is_needed(const std::string& peer) const;
  [[nodiscard]] bool may_avoid(const std::string& peer) const;
  [[nodiscard]] std::vector<LinkHandle> links_up(const std::string& peer) const;
  [[nodiscard]] bool is_up(const std::string& peer) const { return !links_up(peer).empty(); }

  std::shared_ptr<NodeContext> shared_node_;
  NodeContext& node_;
  Host& host_;
  Pacer egress_{kUnlimited};
  Flush flush_;
  std::map<std::string, std::string> addresses_;
  Incarnations incarnations_;  // of those whose address is known
  std::map<std::string, Dial> dials_;
  std::map<LinkHandle, Connection> connections_;
  OutgoingLinks outgoing_;
  DepartedLinks departed_;
  std::map<std::string, std::unique_ptr<IncomingLink>> incoming_;
  LostLinks lost_;
  BrokenLinks broken_;
  Refusals refusals_;
  Prober prober_;
  // Suspected when the link to it was lost, and not heard since.
  std::set<std::string> unheard_;
  Lifetime life_;
};

}  // namespace square
