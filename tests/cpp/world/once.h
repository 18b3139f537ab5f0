// What is given once: numbers, names, epochs, terms, and the group that another one goes on as.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "controller/publication.h"
#include "square/group.h"
#include "world/controller_process.h"

namespace square::test {

class Once {
 public:
  // Is told what was given twice.
  explicit Once(std::function<void(const std::string&)> complain) : complain_(std::move(complain)) {}

  // A number that was given means the same for ever.
  void note_group(const GroupSpec& group, const GroupRegistration& made);
  void note_plan(const Plan& plan);
  // All the controllers of a store together give an epoch once, and each term is one process's.
  void note_part(const ControllerProcess& from, const v1::PlanPart& part);
  // Of the group with this number one part goes on.
  void note_regrouping(std::uint64_t number, const GroupSpec& next);
  [[nodiscard]] bool has_regrouped() const { return !regroupings_.empty(); }

 private:
  const std::function<void(const std::string&)> complain_;
  std::map<std::uint32_t, std::string> collectives_;  // what a number was given to
  std::map<std::uint64_t, std::string> groups_;
  std::map<std::uint64_t, std::string> keys_;  // by group, wrapped
  // By origin and epoch: what is in it.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> plans_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> terms_;    // by store and epoch
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> processes_;  // by store and term
  std::map<std::uint64_t, std::string> regroupings_;                          // by group
};

}  // namespace square::test
