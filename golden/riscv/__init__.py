"""A sequential model of the RV64IM_Zicsr core: what every retired instruction must have done."""
