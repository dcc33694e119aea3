// Package probe says what a machine is, from the files in which Linux tells it, and which build of a model suits it.
//
// # Sources
//
// Paths are below a root, which is / or a folder with a copy of another machine's files.
//
//	what                    where
//	model, flags            /proc/cpuinfo: what every processor has; on Arm the names of implementers and parts
//	processors              /proc/cpuinfo, else /sys/devices/system/cpu/online
//	cores                   /sys/devices/system/cpu/cpu*/topology: unique package, cluster and core
//	clusters                /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq, the fastest first
//	NUMA nodes              /sys/devices/system/node/node*/{cpulist,meminfo}
//	memory                  /proc/meminfo
//	limits                  /proc/self/cgroup, then every level of /sys/fs/cgroup above: memory.max, cpu.max (v2),
//	                        memory.limit_in_bytes, cpu.cfs_quota_us (v1); /proc/self/status: Cpus_allowed_list
//	GPUs                    /sys/bus/pci/devices/*/uevent of class 03, /proc/driver/nvidia, /sys/class/drm/renderD*
//	NPUs                    /sys/bus/pci/devices/*/uevent, /sys/class/accel, the device tree and /sys/devices/soc0 of phones
//	Jetson                  /etc/nv_tegra_release, the device tree
//	WSL2                    /proc/sys/kernel/osrelease, /dev/dxg, /usr/lib/wsl/lib
//	temperatures            /sys/class/thermal/thermal_zone*
//
// A file that is missing, too long or not what it should be makes what it would say unknown, and nothing else. Texts are
// stripped of what a terminal would obey. Limits count: the memory and the processors of a container are those that its
// cgroup leaves it.
//
// # Selection
//
// [Select] reads one table, rules.go, from the top: the first line that fits a machine's class, flags and the priority
// asked for names a path to a build and its alternatives.
package probe
