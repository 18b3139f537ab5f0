// Which sums an encoder sends after the blocks themselves.
#pragma once

#include <vector>

#include "square/coded_block.h"

namespace square {

// The coefficients of sum `number`, from 0 on; never nothing but zeros.
//
// Over finite fields of q elements the first q - K are rows of Cauchy's matrix, c(i, j) = 1 / (x_i + y_j)
// with all x and y different, each column scaled so that the first row is of ones: every square part of it is
// invertible, so any K of the K blocks and these sums decode (Blömer et al., ICSI TR-95-048). All others are
// drawn by the generation's number.
std::vector<double> redundant_row(const Generation& generation, std::uint64_t number);

// `count` coefficients, drawn by the generation's number and `number`; never nothing but zeros.
std::vector<double> random_coefficients(const Generation& generation, std::size_t count,
                                        std::uint64_t number);

}  // namespace square
