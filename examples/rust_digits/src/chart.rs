// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Curves as a picture, in the SVG format that every browser shows.

use std::fmt::Write;

/// One system of axes. What lies outside of [y_min, y_max] is cut off.
pub struct Panel<'a> {
    pub title: &'a str,
    /// Whether gridlines are at 1, 2 and 5 of every decade; y_min is above 0 then.
    pub logarithmic: bool,
    pub y_min: f64,
    pub y_max: f64,
    /// Distance of gridlines; not used if logarithmic.
    pub y_step: f64,
    /// Labels of the vertical axis.
    pub format: fn(f64) -> String,
    /// The last values, at the ends of the curves.
    pub final_format: fn(f64) -> String,
    pub y: [&'a [f64]; 2],
}

pub struct Chart<'a> {
    pub title: &'a str,
    /// Lines below the title.
    pub notes: [&'a str; 2],
    pub x_title: &'a str,
    pub names: [&'a str; 2],
    pub panels: [Panel<'a>; 2],
}

// Sizes in pixels. A panel is the frame between the axes; its labels stand around it.
const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 470.0;
const TOP: f64 = 132.0;
const PANEL_HEIGHT: f64 = 274.0;
const PANEL_WIDTH: f64 = 384.0;
const BOTTOM: f64 = TOP + PANEL_HEIGHT;
const LEFTS: [f64; 2] = [66.0, 580.0];

/// Blue and vermilion: told apart by colour-blind people, too.
const COLORS: [&str; 2] = ["#0072b2", "#d55e00"];

/// Adds a line of SVG; text in memory cannot fail.
macro_rules! line {
    ($svg:expr, $($words:tt)*) => {
        writeln!($svg, $($words)*).expect("a text can be written to")
    };
}

fn text(svg: &mut String, x: f64, y: f64, attributes: &str, content: &str) {
    line!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{content}</text>");
}

fn x_pixel(left: f64, points: usize, x: usize) -> f64 {
    left + PANEL_WIDTH * x as f64 / (points - 1) as f64
}

impl Panel<'_> {
    fn y_pixel(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value / self.y_min).ln() / (self.y_max / self.y_min).ln()
        } else {
            (value - self.y_min) / (self.y_max - self.y_min)
        };
        TOP + PANEL_HEIGHT * (1.0 - part)
    }

    fn gridline(&self, svg: &mut String, left: f64, value: f64) {
        let (y, right) = (self.y_pixel(value), left + PANEL_WIDTH);
        line!(svg, "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e6e6e6\"/>");
        text(svg, left - 9.0, y + 4.0, "class=\"tick\" text-anchor=\"end\"", &(self.format)(value));
    }

    fn y_axis(&self, svg: &mut String, left: f64) {
        let slack = 1e-9; // of a gridline that should lie on the border and misses it by rounding
        if !self.logarithmic {
            let count = ((self.y_max - self.y_min) / self.y_step + slack) as usize;
            for i in 0..=count {
                self.gridline(svg, left, self.y_min + i as f64 * self.y_step);
            }
            return;
        }
        let mut decade = 10f64.powf(self.y_min.log10().floor());
        while decade <= self.y_max {
            for value in [1.0, 2.0, 5.0].map(|digit| decade * digit) {
                if value >= self.y_min * (1.0 - slack) && value <= self.y_max * (1.0 + slack) {
                    self.gridline(svg, left, value);
                }
            }
            decade *= 10.0;
        }
    }

    fn x_axis(&self, svg: &mut String, left: f64, title: &str) {
        let (points, right) = (self.y[0].len(), left + PANEL_WIDTH);
        let last = points - 1;
        let distances = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
        let distance = distances.into_iter().find(|distance| last / distance <= 8).unwrap_or(last);
        for x in (0..=last).step_by(distance) {
            let (pixel, end) = (x_pixel(left, points, x), BOTTOM + 5.0);
            line!(svg, "<line x1=\"{pixel:.1}\" y1=\"{BOTTOM}\" x2=\"{pixel:.1}\" y2=\"{end}\" stroke=\"#555\"/>");
            text(svg, pixel, BOTTOM + 20.0, "class=\"tick\" text-anchor=\"middle\"", &x.to_string());
        }
        line!(svg, "<line x1=\"{left}\" y1=\"{BOTTOM}\" x2=\"{right}\" y2=\"{BOTTOM}\" stroke=\"#555\"/>");
        text(svg, left + PANEL_WIDTH / 2.0, BOTTOM + 42.0, "class=\"axis\" text-anchor=\"middle\"", title);
    }

    fn curves(&self, svg: &mut String, left: f64) {
        let right = left + PANEL_WIDTH;
        let (frame_top, frame_height) = (TOP - 1.0, PANEL_HEIGHT + 2.0);
        line!(
            svg,
            "<clipPath id=\"frame{left}\"><rect x=\"{left}\" y=\"{frame_top}\" width=\"{PANEL_WIDTH}\" \
             height=\"{frame_height}\"/></clipPath>"
        );
        let mut ends = [TOP; 2];
        for c in [1, 0] {
            // The first curve comes last, on top. Where the training blew up the curve ends.
            let pixels = self.y[c].iter().map(|value| self.y_pixel(*value)).take_while(|pixel| pixel.is_finite());
            let pixels: Vec<f64> = pixels.collect();
            let place = |(x, y): (usize, &f64)| format!("{:.1},{y:.1} ", x_pixel(left, self.y[c].len(), x));
            let points: String = pixels.iter().enumerate().map(place).collect();
            let color = COLORS[c];
            line!(
                svg,
                "<polyline clip-path=\"url(#frame{left})\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" \
                 stroke-linejoin=\"round\" points=\"{points}\"/>"
            );
            ends[c] = pixels.last().copied().unwrap_or(TOP).clamp(TOP, BOTTOM);
            line!(svg, "<circle cx=\"{right}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{color}\"/>", ends[c]);
        }

        // The last values stand beside the ends of the curves, moved apart where they would cover each other.
        let overlap = 15.0 - (ends[0] - ends[1]).abs();
        if overlap > 0.0 {
            let up = if ends[0] <= ends[1] { -1.0 } else { 1.0 };
            ends[0] += up * overlap / 2.0;
            ends[1] -= up * overlap / 2.0;
        }
        for (c, end) in ends.into_iter().enumerate() {
            let label = self.y[c].last().map_or_else(String::new, |value| (self.final_format)(*value));
            text(svg, right + 9.0, end + 4.0, &format!("class=\"final\" fill=\"{}\"", COLORS[c]), &label);
        }
    }
}

impl Chart<'_> {
    pub fn draw(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\"\n font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" font-size=\"13\" \
             fill=\"#222\">\n\
             <style>.tick{{font-size:11.5px;fill:#555}}.axis{{font-size:12.5px;fill:#333}}.head{{font-size:14px;\
             font-weight:bold}}.note{{font-size:12px;fill:#555}}.final{{font-size:12px;font-weight:bold}}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        text(&mut svg, 24.0, 34.0, "font-size=\"19\" font-weight=\"bold\"", self.title);
        for (y, note) in [57.0, 75.0].into_iter().zip(self.notes) {
            text(&mut svg, 24.0, y, "class=\"note\"", note);
        }
        for (c, name) in self.names.into_iter().enumerate() {
            let (x, color) = (WIDTH - 230.0 + 110.0 * c as f64, COLORS[c]);
            let end = x + 24.0;
            line!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"29\" x2=\"{end:.1}\" y2=\"29\" stroke=\"{color}\" stroke-width=\"3\"/>"
            );
            text(&mut svg, x + 31.0, 33.5, "font-size=\"14\"", name);
        }
        for (panel, left) in self.panels.iter().zip(LEFTS) {
            text(&mut svg, left, TOP - 14.0, "class=\"head\"", panel.title);
            panel.y_axis(&mut svg, left);
            panel.x_axis(&mut svg, left, self.x_title);
            panel.curves(&mut svg, left);
        }
        svg + "</svg>\n"
    }
}
