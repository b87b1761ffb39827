// Package resources does arithmetic with Mesos' resources for the simulator: sums, differences, containment, and the two
// notations of reservations. It exists because mesos-go's own algebra is too slow for ten thousand agents and knows too
// little of refined reservations.
//
// A [Bag] is a sorted list of items. Items are told apart by what Mesos never adds up: name, stack of reservations, disk,
// revocability, sharedness, provider. To whom a resource is allocated is no part of it; [Bag.Proto] writes that in.
// Amounts are integers of a thousandth, as Mesos keeps three decimals. All functions are pure, and a Bag is never changed
// once it was made.
package resources
