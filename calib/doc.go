// Package calib makes token sequences for calibration out of text.
package calib
