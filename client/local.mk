# libwq, its pkg-config file, and wqctl.
